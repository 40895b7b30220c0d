#!/usr/bin/env python3
"""Tests of glint_torch.py: python3 examples/pytorch/test_attention.py [-v] [TestCase.test]

Every test runs on the CPU and, where there is one, on the GPU. A head_dim or dtype that the library was built without is left out; a
device on which nothing is left fails.
"""

import ctypes
import itertools
import math
import pathlib
import re
import sys
import threading
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import glint_torch as glint  # noqa: E402

EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
TF32 = 2.0**-10
TF32_PRODUCTS = 1  # enum glint_math
BOUNDS = 3  # of enum glint_feature: those of masks


def by_definition(q, k, v, scale, seen, softcap=0.0, sinks=None, bias=None):
    """O and LSE of [B, H, N, D] tensors by the definition, for autograd; `seen` [B, 1, N, M] says which keys a query sees,
    and `bias` what is added to the scores."""
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).mT * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = (scores if bias is None else scores + bias).masked_fill(~seen, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    lse = scores.logsumexp(-1)
    p = torch.exp(scores - torch.where(lse == -math.inf, 0.0, lse)[..., None])[..., : k.shape[2]]
    return p @ v.repeat_interleave(group, 1), lse


def reference(q, k, v, mask, scale, dout):
    """Plain attention and its gradients in the tensors' own dtype, by the definition: [B, H, N, D] -> o, lse, dq, dk, dv."""
    group = q.shape[1] // k.shape[1]
    kg, vg = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ kg.mT * scale
    if mask != "none":
        offset = 0 if mask == "top_left" else k.shape[2] - q.shape[2]
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(offset + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    p = torch.exp(scores - torch.where(lse == -math.inf, 0.0, lse)[..., None])
    o = p @ vg
    dp = dout @ vg.mT
    ds = p * (dp - (dout * o).sum(-1, keepdim=True)) * scale
    dk, dv = (x.unflatten(1, (k.shape[1], group)).sum(2) for x in (ds.mT @ q, p.mT @ dout))
    return o, lse, ds @ kg, dk, dv


def packed(shape, dtype, device):
    return torch.randn(shape, device=device).to(dtype)


def transposed(shape, dtype, device):
    b, h, n, d = shape
    return packed((b, n, h, d), dtype, device).transpose(1, 2)


def of_fused(shape, dtype, device):
    """A view of a [B, N, 3, H, D] tensor."""
    b, h, n, d = shape
    return packed((b, n, 3, h, d), dtype, device)[:, :, 1].transpose(1, 2)


def with_gaps(shape, dtype, device):
    b, h, n, d = shape
    return packed((b, h, n + 3, d + 8), dtype, device)[:, :, 2:-1, :d]


def expanded(shape, dtype, device):
    b, h, n, d = shape
    return packed((1, h, n, d), dtype, device).expand(shape)


def backwards_dim(shape, dtype, device):
    """head_dim is not contiguous: Glint cannot read this in place, the binding copies it."""
    b, h, n, d = shape
    return packed((b, h, d, n), dtype, device).mT


def odd_rows(shape, dtype, device):
    """Rows are not multiples of 16 bytes: copied too."""
    b, h, n, d = shape
    return packed((b, h, n, d + 1), dtype, device)[..., :-1]


def odd_address(shape, dtype, device):
    """Rows are multiples of 16 bytes, the address is not."""
    b, h, n, d = shape
    return packed((b, h, n, d + 8), dtype, device)[..., 1 : d + 1]


LAYOUTS = [packed, transposed, of_fused, with_gaps, expanded, backwards_dim, odd_rows, odd_address]
SHAPES = [  # batch, heads_q, heads_kv, seqlen_q, seqlen_k
    (2, 3, 3, 69, 69), (1, 4, 1, 1, 133), (1, 2, 2, 133, 1), (1, 8, 2, 127, 65), (2, 2, 1, 64, 257), (3, 1, 1, 97, 31), (1, 1, 1, 1, 1),
    (1, 6, 3, 200, 300),
]


def cases(device):
    """What the library can do on the device with both passes and both kinds of mask: {(dtype, head_dim): whether its products are tf32}."""
    found, tf32 = {}, {}
    for index in range(glint.library().glint_variant_count()):
        info = glint.variant_info(index)
        if (info.sm == 0) == (device == "cpu") and glint.library().glint_variant_available(glint.context(torch.device(device)).handle, index) == 0:
            dtype = next(t for t, code in glint.DTYPES.items() if code == info.dtype)
            found.setdefault((dtype, info.head_dim), set()).add((info.pass_, info.features & BOUNDS))
            tf32[dtype, info.head_dim] = tf32.get((dtype, info.head_dim), False) or info.math == TF32_PRODUCTS
    return {key: tf32[key] for key in sorted(found, key=lambda key: (str(key[0]), key[1])) if found[key] >= {(a, b) for a in (glint.FORWARD, glint.BACKWARD) for b in (0, 1)}}


class OnDevice:
    """What is tested on each device; the classes below name it."""

    device = ""

    @classmethod
    def setUpClass(cls):
        cls.kinds = cases(cls.device)
        assert cls.kinds, f"the library has no complete pair of passes for {cls.device}"

    def setUp(self):
        torch.manual_seed(0)

    def first(self):
        """float32 with some head_dim, or whatever there is."""
        return next((kind for kind in self.kinds if kind[0] == torch.float32), next(iter(self.kinds)))

    def test_float64(self):
        """Every dtype, head_dim, mask, layout and shape against float64: at most twice the error of plain attention in the same dtype, three
        times for gradients."""
        worst = {}
        combinations = itertools.product(self.kinds, SHAPES, glint.MASKS)
        for number, ((dtype, d), (b, hq, hkv, sq, sk), mask) in enumerate(combinations):
            make = [LAYOUTS[(number + 3 * i) % len(LAYOUTS)] for i in range(4)]
            q, k, v, dout = (f(s, dtype, self.device) for f, s in
                             zip(make, [(b, hq, sq, d), (b, hkv, sk, d), (b, hkv, sk, d), (b, hq, sq, d)]))
            leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            scale = (1, 1, -1, 4)[number % 4] * d**-0.5
            o, lse = glint.attention(*leaves, causal=None if mask == "none" else mask, scale=scale, return_lse=True)
            got = [o, lse, *torch.autograd.grad(o, leaves, dout)]
            true = reference(*(t.double() for t in (q, k, v)), mask, scale, dout.double())
            plain = reference(q, k, v, mask, scale, dout)
            unit = EPS[dtype] * (16 if dtype == torch.float32 else 0.5)  # sums of float32; one rounding of the result
            if self.kinds[dtype, d]:  # tf32 rounds factors; scores grow with the scale, and so does what that does to their exponentials
                unit = 4 * TF32 * max(1, abs(scale) * d**0.5)
            for name, times, x, y, p in zip(("o", "lse", "dq", "dk", "dv"), (2, 2, 3, 3, 3), got, true, plain):
                if name == "lse":
                    seen = y > -math.inf
                    self.assertTrue(torch.equal(seen, x > -math.inf))
                    x, y, p = x[seen], y[seen], p[seen].double() if dtype == torch.float32 else y[seen]  # float32 in every dtype
                if y.numel() == 0:
                    continue
                error, base = ((t.double() - y).abs().max().item() for t in (x, p))
                # dQ and dK are sums of differences dP - delta, which may cancel: their terms are what rounding is
                # relative to.
                terms = 4 * d**0.5 * abs(scale)
                size = max(y.abs().max().item(), {"lse": 1, "dq": terms, "dk": terms}.get(name, 0))
                bound = times * base + (unit if name != "lse" or self.kinds[dtype, d] else 16 * EPS[torch.float32]) * size
                ratio = 0 if error == 0 else error / bound if math.isfinite(error) and bound > 0 else math.inf
                worst[dtype] = max(worst.get(dtype, (0, "")), (ratio, f"{name} d{d} {mask} {(b, hq, hkv, sq, sk)} {[f.__name__ for f in make]}"))
                with self.subTest(dtype=dtype, head_dim=d, mask=mask, shape=(b, hq, hkv, sq, sk), tensor=name):
                    self.assertLessEqual(ratio, 1)
        for dtype, (ratio, where) in worst.items():
            print(f"{self.device} {dtype}: {ratio:.2f} of the bound at worst, {where}", file=sys.stderr)

    def test_gradcheck(self):
        """torch.autograd.gradcheck: every entry of the Jacobian by central differences. Inputs sit on a grid that the dtype holds exactly,
        one step of the difference is a multiple of it, and what remains is the rounding inside."""
        combinations = itertools.product(self.kinds, glint.MASKS, [(2, 1, 3, 5, "bhnd"), (1, 1, 4, 2, "bnhd"), (1, 1, 2, 3, "bnd")])
        for (dtype, d), mask, (hq, hkv, sq, sk, layout) in combinations:
            if d > 64:  # a call for every element
                continue
            exact = dtype == torch.float32 and not self.kinds[dtype, d]
            step, tolerance = (2.0**-7, 1e-3) if exact else (2.0**-3, 0.05 if dtype != torch.bfloat16 else 0.1)

            def leaf(*shape):
                b, h, n, dim = shape
                shape = {"bhnd": shape, "bnhd": (b, n, h, dim), "bnd": (b, n, dim)}[layout]
                grid = torch.randint(-8, 9, shape, device=self.device) / 8
                return grid.double().requires_grad_()

            def function(q, k, v):
                o = glint.attention(*(t.to(dtype) for t in (q, k, v)), causal=None if mask == "none" else mask, layout=layout)
                return o.double()

            with self.subTest(dtype=dtype, head_dim=d, mask=mask, heads=(hq, hkv), lengths=(sq, sk), layout=layout):
                inputs = leaf(1, hq, sq, d), leaf(1, hkv, sk, d), leaf(1, hkv, sk, d)
                self.assertTrue(torch.autograd.gradcheck(function, inputs, eps=step, atol=tolerance, rtol=tolerance, nondet_tol=0))

    def test_layouts_agree(self):
        """[B, H, N, D], [B, N, H, D] and [B, N, D]: the same bits."""
        dtype, d = self.first()
        q, k, v, dout = (packed((2, 1, 77, d), dtype, self.device).requires_grad_(i < 3) for i in range(4))
        results = []
        for layout, there, back in [("bhnd", lambda t: t, lambda t: t), ("bnhd", lambda t: t.transpose(1, 2), lambda t: t.transpose(1, 2)),
                                    ("bnd", lambda t: t.squeeze(1), lambda t: t.unsqueeze(1))]:
            o = glint.attention(*map(there, (q, k, v)), causal=True, layout=layout)
            self.assertEqual(o.shape, there(q).shape)
            results.append([back(o), *torch.autograd.grad(back(o), (q, k, v), dout)])
        for other in results[1:]:
            for x, y in zip(results[0], other):
                self.assertTrue(torch.equal(x, y))

    def test_repeatable(self):
        """The same bits every time, forward and backward."""
        for dtype, d in self.kinds:
            q, k, v = (packed((2, 4, 150, d), dtype, self.device).requires_grad_() for _ in range(3))
            dout = packed((2, 4, 150, d), dtype, self.device)
            runs = []
            for _ in range(10):
                o = glint.attention(q, k, v, causal=True)
                runs.append([o.detach(), *torch.autograd.grad(o, (q, k, v), dout)])
            for run in runs[1:]:
                for x, y in zip(runs[0], run):
                    self.assertTrue(torch.equal(x, y), (dtype, d))

    def test_options(self):
        """Windows, softcap, sinks and lengths together against float64, with gradients; what the library was built without is left out."""
        dtype, d = self.first()
        b, hq, hkv, sq, sk = 3, 4, 2, 33, 50
        place = torch.arange(sk, device=self.device)[None, :] - torch.arange(sq, device=self.device)[:, None]  # j - i
        tolerance = 2e-2 if self.kinds[dtype, d] else 2e-4
        done = 0
        for window, softcap, with_sinks, lengths, causal in itertools.product([None, (7, 3), (0, None), (None, 5)], [0.0, 0.7], [False, True],
                                                                              [False, True], [None, "top_left", "bottom_right"]):
            q, k, v, dout = (packed((b, h, n, d), dtype, self.device).requires_grad_() for h, n in ((hq, sq), (hkv, sk), (hkv, sk), (hq, sq)))
            sinks = torch.randn(hq, device=self.device).requires_grad_() if with_sinks else None
            lq, lk = (torch.tensor(n, dtype=torch.int32, device=self.device) for n in ([sq, 5, 0], [sk, 17, 9])) if lengths else (None, None)
            diagonal = -6 if softcap and (causal or window) else 0
            try:
                o, lse = glint.attention(q, k, v, causal=causal, window=window, softcap=softcap, sinks=sinks, seqlens_q=lq, seqlens_k=lk,
                                         return_lse=True, diagonal=diagonal)
                leaves = [q, k, v] + ([sinks] if with_sinks else [])
                dlse = torch.randn(lse.shape, device=self.device)
                got = torch.autograd.grad((o, lse), leaves, (dout, dlse))
            except glint.GlintError as refusal:
                self.assertRegex(str(refusal), "GLINT_NOT_IN_SPEC|GLINT_BAD_LENGTHS|GLINT_NOT_ON_DEVICE")
                continue
            done += 1
            wide = [t.detach().double().requires_grad_() for t in leaves]
            o_64, lse_64 = torch.zeros(o.shape, dtype=torch.float64, device=self.device), torch.full(lse.shape, -math.inf, device=self.device).double()
            of_lse = torch.zeros((), dtype=torch.float64, device=self.device)
            for i in range(b):
                n, m = (int(lq[i]), int(lk[i])) if lengths else (sq, sk)
                top_left = causal == "top_left"
                at = place[:n, :m] - (0 if top_left else m - n) - diagonal
                seen = torch.ones(n, m, dtype=torch.bool, device=self.device)
                if causal:
                    seen &= at <= 0
                if window:
                    left, right = window[0], 0 if causal else window[1]
                    seen = seen if left is None else seen & (at >= -left)
                    seen = seen if right is None else seen & (at <= right)
                one_o, one_lse = by_definition(wide[0][i : i + 1, :, :n], wide[1][i : i + 1, :, :m], wide[2][i : i + 1, :, :m], d**-0.5, seen[None, None],
                                               softcap, wide[3] if with_sinks else None)
                o_64 = torch.index_put(o_64, (torch.tensor([i], device=self.device),), torch.nn.functional.pad(one_o, (0, 0, 0, sq - n)))
                lse_64[i, :, :n] = one_lse[0].detach()
                of_lse = of_lse + torch.where(one_lse[0] > -math.inf, one_lse[0] * dlse[i, :, :n].double(), 0.0).sum()
            want = torch.autograd.grad((o_64, of_lse), wide, (dout.detach().double(), torch.ones_like(of_lse)), allow_unused=True)
            with self.subTest(window=window, softcap=softcap, sinks=with_sinks, lengths=lengths, causal=causal):
                for name, x, y in zip(("o", "dq", "dk", "dv", "dsinks"), (o, *got), (o_64, *want)):
                    self.assertLess((x.double() - y).abs().max().item(), tolerance * max(1, y.abs().max().item()), name)
                seen_rows = lse_64 > -math.inf
                self.assertTrue(torch.equal(seen_rows, lse > -math.inf))
                self.assertLess((lse.double() - lse_64)[seen_rows].abs().max().item(), tolerance)
        self.assertGreater(done, 0)
        print(f"{self.device}: {done} of 96 combinations of options are in the library", file=sys.stderr)

    def test_intervals(self):
        """Intervals that differ from query to query and between the sequences, with gradients, against float64; and one bound alone."""
        dtype, d = self.first()
        b, hq, hkv, sq, sk = 2, 4, 2, 45, 70
        q, k, v, dout = (packed((b, h, n, d), dtype, self.device).requires_grad_() for h, n in ((hq, sq), (hkv, sk), (hkv, sk), (hq, sq)))
        begin = torch.randint(-5, sk + 5, (b, sq), dtype=torch.int32, device=self.device)
        end = begin + torch.randint(-3, 40, (b, sq), dtype=torch.int32, device=self.device)
        keys = torch.arange(sk, device=self.device)
        for one, other in [(begin, end), (begin, None), (None, end)]:
            try:
                o, lse = glint.attention(q, k, v, key_begin=one, key_end=other, return_lse=True)
            except glint.GlintError as refusal:
                self.assertIn("GLINT_NOT_IN_SPEC", str(refusal))
                self.skipTest(str(refusal))
            got = torch.autograd.grad(o, (q, k, v), dout)
            seen = torch.ones(b, 1, sq, sk, dtype=torch.bool, device=self.device)
            seen = seen if one is None else seen & (keys >= one[:, None, :, None])
            seen = seen if other is None else seen & (keys < other[:, None, :, None])
            wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
            o_64, lse_64 = by_definition(*wide, d**-0.5, seen)
            want = torch.autograd.grad(o_64, wide, dout.detach().double())
            tolerance = 2e-2 if self.kinds[dtype, d] else 2e-4
            for x, y in zip((o, *got), (o_64, *want)):
                self.assertLess((x.double() - y).abs().max().item(), tolerance * max(1, y.abs().max().item()))
            self.assertTrue(torch.equal(lse == -math.inf, lse_64 == -math.inf))

    def test_tree(self):
        """Guesses in a tree after a cache, as words and as booleans, without a window and with one that counts along the paths."""
        dtype, d = self.first()
        b, hq, hkv, sq, sk = 2, 4, 2, 37, 90
        q, k, v = (packed((b, h, n, d), dtype, self.device) for h, n in ((hq, sq), (hkv, sk), (hkv, sk)))
        tree, depth = torch.zeros(b, sq, sq, dtype=torch.bool), torch.zeros(b, sq, dtype=torch.int64)
        for i in range(b):
            for row in range(sq):
                parent = row - 1 - row % 5
                tree[i, row] = tree[i, parent] if parent >= 0 else False
                tree[i, row, row] = True
                depth[i, row] = tree[i, row].sum() - 1
        tree, depth = tree.to(self.device), depth.to(self.device)
        place = torch.cat((torch.arange(sk - sq, device=self.device).expand(b, -1), sk - sq + depth), 1)
        for window in (None, 3):
            seen = torch.cat((torch.ones(b, sq, sk - sq, dtype=torch.bool, device=self.device), tree), 2)
            if window is not None:
                seen = seen & (place[:, None, :] >= sk - sq + depth[:, :, None] - window)
            options = {} if window is None else {"causal": "bottom_right", "window": (window, 0)}
            try:
                o, lse = glint.attention(q, k, v, tree=tree, return_lse=True, **options)
            except glint.GlintError as refusal:
                self.assertIn("GLINT_NOT_IN_SPEC", str(refusal))
                self.skipTest(str(refusal))
            again = glint.attention(q, k, v, tree=glint.tree_words(tree), **options)
            self.assertTrue(torch.equal(o, again))
            o_64, lse_64 = by_definition(*(t.double() for t in (q, k, v)), d**-0.5, seen[:, None])
            tolerance = 2e-2 if self.kinds[dtype, d] else 2e-4
            self.assertLess((o.double() - o_64).abs().max().item(), tolerance)
            self.assertLess((lse.double() - lse_64).abs().max().item(), tolerance)
        with self.assertRaises(ValueError):
            glint.attention(q.requires_grad_(), k, v, tree=tree)

    def test_max_logit(self):
        """The largest score of each head, beside O and its gradient, which it leaves alone."""
        dtype, d = self.first()
        b, hq, hkv, sq, sk = 2, 4, 2, 45, 70
        q, k, v, dout = (packed((b, h, n, d), dtype, self.device).requires_grad_() for h, n in ((hq, sq), (hkv, sk), (hkv, sk), (hq, sq)))
        try:
            o, lse, logit = glint.attention(q, k, v, causal="bottom_right", return_lse=True, return_max_logit=True)
        except glint.GlintError as refusal:
            self.assertIn("GLINT_BAD_LOGIT", str(refusal))
            self.skipTest(str(refusal))
        plain, lse_of_plain = glint.attention(q, k, v, causal="bottom_right", return_lse=True)
        self.assertTrue(torch.equal(o, plain) and torch.equal(lse, lse_of_plain))
        for x, y in zip(torch.autograd.grad(o, (q, k, v), dout), torch.autograd.grad(plain, (q, k, v), dout)):
            self.assertTrue(torch.equal(x, y))
        scores = q.double() @ k.double().repeat_interleave(hq // hkv, 1).mT * d**-0.5
        hidden = torch.ones(sq, sk, dtype=torch.bool, device=self.device).triu(sk - sq + 1)
        want = scores.masked_fill(hidden, -math.inf).amax((0, 2, 3))
        self.assertLess((logit.double() - want).abs().max().item(), (2e-2 if self.kinds[dtype, d] else 2e-5) * want.abs().max().item())

    def test_alibi(self):
        """Slopes of either sign, with gradients, under each mask, against float64 with the distances written out."""
        dtype, d = self.first()
        b, hq, hkv, sq, sk = 2, 4, 2, 45, 70
        q, k, v, dout = (packed((b, h, n, d), dtype, self.device).requires_grad_() for h, n in ((hq, sq), (hkv, sk), (hkv, sk), (hq, sq)))
        slopes = torch.tensor([0.25, 0.0625, -0.02, 0.5], device=self.device)
        for causal, diagonal in [(None, 0), ("bottom_right", 0), ("top_left", 9)]:
            try:
                o, lse = glint.attention(q, k, v, causal=causal, diagonal=diagonal, alibi=slopes, return_lse=True)
            except glint.GlintError as refusal:
                self.assertIn("GLINT_NOT_IN_SPEC", str(refusal))
                self.skipTest(str(refusal))
            got = torch.autograd.grad(o, (q, k, v), dout)
            position = torch.arange(sq, device=self.device) + (0 if causal == "top_left" else sk - sq) + diagonal
            distance = (position[:, None] - torch.arange(sk, device=self.device)).double()
            seen = (distance >= 0 if causal else distance == distance).expand(b, 1, sq, sk)
            wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
            o_64, lse_64 = by_definition(*wide, d**-0.5, seen, bias=-slopes.double()[:, None, None] * distance.abs())
            want = torch.autograd.grad(o_64, wide, dout.detach().double())
            tolerance = 2e-2 if self.kinds[dtype, d] else 2e-4
            for x, y in zip((o, lse, *got), (o_64, lse_64, *want)):
                self.assertLess((x.double() - y).abs().max().item(), tolerance * max(1, y.abs().max().item()))

    def test_bias(self):
        """A bias of every broadcast shape, of strides in any order and expanded, beside masks, a softcap, sinks and lengths, against float64."""
        dtype, d = self.first()
        b, hq, hkv, sq, sk = 2, 4, 2, 45, 70
        tolerance = 2e-2 if self.kinds[dtype, d] else 2e-4
        done = with_gradient = 0
        shapes = [(b, hq, sq, sk), (1, hq, sq, sk), (b, 1, sq, sk), (b, 1, 1, sk), (1, hq, 1, sk), (1, 1, sq, 1), (1, 1, 1, 1)]
        for number, (shape, causal) in enumerate(itertools.product(shapes, [None, "bottom_right"])):
            q, k, v, dout = (packed((b, h, n, d), dtype, self.device).requires_grad_() for h, n in ((hq, sq), (hkv, sk), (hkv, sk), (hq, sq)))
            bias = [lambda: torch.randn(shape, device=self.device), lambda: torch.randn(shape[2:] + shape[:2], device=self.device).permute(2, 3, 0, 1),
                    lambda: torch.randn(shape[1:], device=self.device).expand(b, -1, -1, -1)][number % 3]()
            softcap = 0.8 * (number % 2)
            sinks = torch.randn(hq, device=self.device).requires_grad_() if number % 4 == 1 else None
            lengths = torch.tensor([sk, 9], dtype=torch.int32, device=self.device) if number % 5 == 2 and not causal else None
            options = dict(causal=causal, softcap=softcap, sinks=sinks, seqlens_k=lengths)
            with self.subTest(shape=shape, causal=causal, softcap=softcap, sinks=sinks is not None, lengths=lengths is not None):
                try:
                    o, lse = glint.attention(q, k, v, bias=bias, return_lse=True, **options)
                except glint.GlintError as refusal:
                    self.assertIn("GLINT_NOT_IN_SPEC", str(refusal))
                    continue
                done += 1
                leaves = [q, k, v] + ([] if sinks is None else [sinks])
                wide = [t.detach().double().requires_grad_() for t in [*leaves, bias]]
                key = torch.arange(sk, device=self.device)
                seen = torch.ones(b, 1, sq, sk, dtype=torch.bool, device=self.device)
                seen = seen if not causal else seen & (key <= torch.arange(sq, device=self.device)[:, None] + sk - sq)
                seen = seen if lengths is None else seen & (key < lengths[:, None, None, None])
                want, want_lse = by_definition(*wide[:3], d**-0.5, seen, softcap, wide[3] if sinks is not None else None, wide[-1])
                gradients = torch.autograd.grad(want, wide, dout.detach().double())
                self.assertLess((lse.double() - want_lse).abs().max().item(), tolerance)
                self.assertLess((o.double() - want).abs().max().item(), tolerance)
                o = glint.attention(q, k, v, bias=bias.requires_grad_(), **options)
                try:
                    got = torch.autograd.grad(o, [*leaves, bias], dout)
                except glint.GlintError as refusal:
                    self.assertIn("GLINT_NOT_IN_SPEC", str(refusal))
                    continue
                with_gradient += 1
                for x, y in zip(got, gradients):
                    self.assertEqual(x.shape, y.shape)
                    self.assertLess((x.double() - y).abs().max().item(), tolerance * max(1, y.abs().max().item()))
        if not done:
            self.skipTest("the library has no rows with a bias")
        print(f"{self.device}: {done} biases, {with_gradient} of them with a gradient", file=sys.stderr)

    def test_pages(self):
        """A page table gives the bits of linear K and V."""
        dtype, d = self.first()
        rows, pages, each = 16, 11, 3
        k, v = (packed((pages, 2, rows, d), dtype, self.device) for _ in range(2))
        table = torch.tensor([[7, 2, 9], [0, 10, 5]], dtype=torch.int32, device=self.device)
        lengths = torch.tensor([3 * rows, rows + 5], dtype=torch.int32, device=self.device)
        for queries in (1, 20):
            q = packed((2, 4, queries, d), dtype, self.device)
            linear = [t[table.long()].transpose(1, 2).reshape(2, 2, each * rows, d).contiguous() for t in (k, v)]
            try:
                got = glint.attention(q, k, v, causal=True, seqlens_k=lengths, page_table=table)
            except glint.GlintError as refusal:
                self.skipTest(str(refusal))
            self.assertTrue(torch.equal(got, glint.attention(q, *linear, causal=True, seqlens_k=lengths)))
            heads_inside = (t.transpose(1, 2).contiguous() for t in (k, v))
            other = glint.attention(q.transpose(1, 2), *heads_inside, causal=True, layout="bnhd", seqlens_k=lengths, page_table=table)
            self.assertTrue(torch.equal(got, other.transpose(1, 2)))

    def test_rows_that_see_nothing(self):
        dtype, d = self.first()
        q, k, v = (packed((1, 2, n, d), dtype, self.device).requires_grad_() for n in (9, 4, 4))
        o, lse = glint.attention(q, k, v, causal="bottom_right", return_lse=True)
        self.assertTrue((o[:, :, :5] == 0).all() and (lse[:, :, :5] == -math.inf).all() and lse[:, :, 5:].isfinite().all())
        dq, dk, dv = torch.autograd.grad(o, (q, k, v), torch.ones_like(o))
        self.assertTrue((dq[:, :, :5] == 0).all() and dk.isfinite().all() and dv.isfinite().all())

    def test_empty(self):
        dtype, d = self.first()
        for sq, sk in [(0, 5), (5, 0), (0, 0)]:
            q, k, v = (packed((2, 2, n, d), dtype, self.device).requires_grad_() for n in (sq, sk, sk))
            o = glint.attention(q, k, v)
            self.assertTrue((o == 0).all())
            for t, g in zip((q, k, v), torch.autograd.grad(o.sum(), (q, k, v))):
                self.assertTrue(g.shape == t.shape and (g == 0).all())

    def test_gradient_of_a_sum(self):
        """Autograd hands an expanded dO without memory of its own, and accumulates into leaves."""
        dtype, d = self.first()
        q, k, v = (packed((2, 2, 33, d), dtype, self.device).requires_grad_() for _ in range(3))
        for _ in range(2):
            glint.attention(q, k, v).sum().backward()
        _, _, dq, dk, dv = reference(q.double(), k.double(), v.double(), "none", d**-0.5, torch.ones_like(q).double())
        for t, g in zip((q, k, v), (dq, dk, dv)):
            self.assertLess((t.grad.double() - 2 * g).abs().max().item(), 2e-2 if self.kinds[dtype, d] else 2e-5)

    def test_only_what_needs_a_gradient(self):
        dtype, d = self.first()
        q, k, v = (packed((1, 1, 8, d), dtype, self.device) for _ in range(3))
        self.assertFalse(glint.attention(q, k, v).requires_grad)
        glint.attention(q, k, v.requires_grad_()).sum().backward()
        self.assertIsNotNone(v.grad)
        self.assertIsNone(q.grad)

    def test_second_derivatives_are_refused(self):
        dtype, d = self.first()
        q, k, v = (packed((1, 1, 8, d), dtype, self.device).requires_grad_() for _ in range(3))
        (dq,) = torch.autograd.grad(glint.attention(q, k, v).sum(), q, create_graph=True)
        with self.assertRaises(RuntimeError):
            dq.sum().backward()

    def test_threads(self):
        """Several Python threads at a time on one context."""
        dtype, d = self.first()
        inputs = [[packed((1, 4, 100 + i, d), dtype, self.device).requires_grad_() for _ in range(3)] for i in range(4)]

        def work(q, k, v):
            o = glint.attention(q, k, v, causal=True)
            return [o.detach(), *torch.autograd.grad(o.sum(), (q, k, v))]

        alone = [work(*i) for i in inputs]
        together = [None] * len(inputs)

        def run(i):
            for _ in range(20):
                together[i] = work(*inputs[i])

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(inputs))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for one, other in zip(alone, together):
            self.assertTrue(other is not None and all(torch.equal(x, y) for x, y in zip(one, other)))

    def test_refusals(self):
        dtype, d = self.first()

        def zeros(*shape, dtype=dtype):
            return torch.zeros(shape, dtype=dtype, device=self.device)

        good = zeros(1, 2, 4, d)
        for error, message, arguments, options in [
                (glint.GlintError, "GLINT_BAD_HEAD_DIM", [zeros(1, 2, 4, 9)] * 3, {}),
                (glint.GlintError, "GLINT_NOT_IN_SPEC", [zeros(1, 2, 4, 8 * 125)] * 3, {}),
                (glint.GlintError, "GLINT_BAD_HEAD_GROUP", [zeros(1, 3, 4, d), good, good], {}),
                (glint.GlintError, "GLINT_BAD_SCALE", [good] * 3, {"scale": math.inf}),
                (ValueError, "shapes do not fit", [good, good, zeros(1, 2, 5, d)], {}),
                (ValueError, "shapes do not fit", [good, zeros(2, 2, 4, d), zeros(2, 2, 4, d)], {}),
                (ValueError, "one dtype", [good, good, good.double()], {}),
                (ValueError, "one dtype", [good.double()] * 3, {}),
                (ValueError, "dimensions", [good[0]] * 3, {"layout": "bnhd"}),
                (ValueError, "layout", [good] * 3, {"layout": "nhbd"}),
                (ValueError, "say causal=", [good, zeros(1, 2, 5, d), zeros(1, 2, 5, d)], {"causal": True}),
                (KeyError, "middle", [good] * 3, {"causal": "middle"}),
                (ValueError, "with seqlens_k", [good] * 3, {"page_table": torch.zeros(1, 1, dtype=torch.int32)}),
                (ValueError, "with seqlens_k", [good] * 3, {"seqlens_q": torch.zeros(1, dtype=torch.int32)}),
                (ValueError, "seqlens_k must be int32", [good] * 3, {"seqlens_k": torch.zeros(2, dtype=torch.int32, device=self.device)}),
                (ValueError, "bias must be float32", [good] * 3, {"bias": torch.zeros(1, 2, 4, 3, device=self.device)}),
                (ValueError, "bias must be float32", [good] * 3, {"bias": torch.zeros(4, 4, device=self.device)}),
                (ValueError, "alibi_slopes must be float32", [good] * 3, {"alibi": torch.zeros(3, device=self.device)}),
                (ValueError, "key_end must be int32", [good] * 3, {"key_end": torch.zeros(1, 5, dtype=torch.int32, device=self.device)}),
                (ValueError, "sinks must be float32", [good] * 3, {"sinks": torch.zeros(3, device=self.device)}),
                (glint.GlintError, "GLINT_BAD_SOFTCAP", [good] * 3, {"softcap": -1.0}),
                (glint.GlintError, "GLINT_BAD_WINDOW", [good] * 3, {"window": (-3, 0)}),
                (glint.GlintError, "GLINT_BAD_DIAGONAL", [good] * 3, {"diagonal": 2})]:
            with self.subTest(message=message), self.assertRaisesRegex(error, message):
                glint.attention(*arguments, **options)
        self.assertTrue((glint.attention(good, good, good) == 0).all())  # and all is well afterwards


class Cpu(OnDevice, unittest.TestCase):
    device = "cpu"


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Cuda(OnDevice, unittest.TestCase):
    device = "cuda:0"

    def test_stream(self):
        """Work goes to the current stream: after what is there already, without waiting for it on the host."""
        dtype, d = self.first()
        q, k, v = (packed((1, 2, 64, d), dtype, self.device) for _ in range(3))
        want = glint.attention(q, k, v)
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            late = torch.zeros_like(q)
            torch.cuda._sleep(200_000_000)  # about a tenth of a second
            late.copy_(q)
            got = glint.attention(late, k, v)
            self.assertFalse(side.query(), "the host waited, or the work went to another stream")
        side.synchronize()
        self.assertTrue(torch.equal(got, want))

    def test_graph(self):
        """Forward and backward captured in one CUDA graph; replayed with new data they equal eager calls."""
        for dtype, d in self.kinds:
            q, k, v, dout = (packed((1, 4, 200, d), dtype, self.device).requires_grad_(i < 3) for i in range(4))

            def step():
                o = glint.attention(q, k, v, causal=True)
                return [o, *torch.autograd.grad(o, (q, k, v), dout)]

            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = step()
            with torch.no_grad():
                for t in (q, k, v, dout):
                    t.normal_()
            graph.replay()
            replayed = [t.clone() for t in captured]
            for x, y in zip(replayed, step()):
                self.assertTrue(torch.equal(x, y), (dtype, d))

    def test_memory_is_given_back(self):
        dtype, d = self.first()
        q, k, v = (packed((2, 4, 512, d), dtype, self.device).requires_grad_() for _ in range(3))
        used = []
        for _ in range(5):
            glint.attention(q, k, v).sum().backward()
            q.grad = k.grad = v.grad = None
            torch.cuda.synchronize()
            used.append(torch.cuda.memory_allocated())
        self.assertEqual(len(set(used)), 1)


class Binding(unittest.TestCase):
    def test_structs(self):
        """The structs are those of glint.h: as many fields of the same names and sizes, in the same places. The library refuses any other size."""
        header = (pathlib.Path(__file__).resolve().parents[2] / "lib" / "glint.h").read_text()
        sizes = {"uint32_t": 4, "int32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "struct glint_strides": 24, "struct glint_bias_strides": 32,
                 "struct glint_executor": 24, "struct glint_problem": ctypes.sizeof(glint.Problem)}
        for struct, name in [(glint.Strides, "strides"), (glint.Problem, "problem"), (glint.Tensors, "tensors"), (glint.Executor, "executor"),
                             (glint.Options, "options"), (glint.VariantInfo, "variant_info"), (glint.Plan, "plan")]:
            body = re.search(rf"^struct glint_{name} {{$(.*?)^}};$", header, re.DOTALL | re.MULTILINE)[1]
            body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
            at, places = 0, []
            for declaration in filter(None, (re.sub(r"\s+", " ", part).strip() for part in body.split(";"))):
                if "(*" in declaration:  # a pointer to a function
                    kind, words = None, [re.search(r"\(\*(\w+)\)", declaration)[1]]
                else:
                    kind, names = re.match(r"((?:const )?(?:struct )?\w+ )(.*)", declaration).groups()
                    kind, words = kind.replace("const ", "").strip(), [word.strip() for word in names.split(",")]
                for word in words:
                    size = 8 if kind is None or "*" in word else sizes[kind]
                    at = -(-at // min(size, 8)) * min(size, 8)
                    places.append((re.sub(r"[*\s]|\[.*", "", word), at))
                    count = re.search(r"\[(\d+)\]", word)
                    at += size * int(count[1] if count else 1)
            mirrored = [(field.rstrip("_"), getattr(struct, field).offset) for field, _ in struct._fields_]
            self.assertEqual(mirrored, places, name)
            self.assertEqual(ctypes.sizeof(struct), -(-at // 8) * 8 if any(p > 0 for _, p in places) else at, name)


if __name__ == "__main__":
    unittest.main()
