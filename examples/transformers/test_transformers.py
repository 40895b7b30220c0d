#!/usr/bin/env python3
"""Tests of glint_transformers.py, on the CPU: python3 examples/transformers/test_transformers.py [-v] [TestCase.test]

Small models with random weights are computed with attn_implementation="eager" and "glint": logits, greedy generation and the gradients of a
training step. What the library was built without is left out and counted; examples/transformers/spec.lua has all of it.
"""

import contextlib
import copy
import itertools
import pathlib
import sys
import unittest

import torch
import transformers
from transformers import masking_utils as masks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import glint_transformers as glint  # noqa: E402
from glint_torch import GlintError  # noqa: E402

BOUND = 1e-5  # of the largest logit, and of the largest entry of a gradient: float32 in another order
WORDS = 97
SIZES = dict(vocab_size=WORDS, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
             initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=None)
transformers.logging.set_verbosity_error()


def words(batch, tokens):
    return torch.randint(2, WORDS - 3, (batch, tokens))


def padded(left, right, tokens):
    """1 where there is a token, for sequences with so many places of padding on the left and on the right."""
    place = torch.arange(tokens)
    return torch.stack([(place >= a) & (place < tokens - b) for a, b in zip(left, right)]).long()


def llama(**more):
    return transformers.LlamaForCausalLM._from_config(transformers.LlamaConfig(**SIZES, **more))


def gemma3(**more):
    sizes = dict(SIZES, query_pre_attn_scalar=20, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    vision = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8)
    config = transformers.Gemma3Config(text_config=dict(sizes, **more), vision_config=vision, mm_tokens_per_image=4, image_token_index=WORDS - 1,
                                       boi_token_index=WORDS - 2, eoi_token_index=WORDS - 3)
    return transformers.Gemma3ForConditionalGeneration._from_config(config)


def gemma2(**more):
    sizes = dict(SIZES, query_pre_attn_scalar=20, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    return transformers.Gemma2ForCausalLM._from_config(transformers.Gemma2Config(**dict(sizes, attn_logit_softcapping=3.0, **more)))


def gpt_oss(**more):
    sizes = dict(SIZES, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"], num_local_experts=4,
                 num_experts_per_tok=2)
    model = transformers.GptOssForCausalLM._from_config(transformers.GptOssConfig(**dict(sizes, **more)))
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks, std=2)
    model.set_experts_implementation("eager")  # takes float64
    return model


def llama4(**more):
    sizes = dict(SIZES, attention_chunk_size=8, layer_types=["chunked_attention", "full_attention", "chunked_attention"], num_local_experts=2,
                 intermediate_size_mlp=96, attn_temperature_tuning=False)
    model = transformers.Llama4ForCausalLM._from_config(transformers.Llama4TextConfig(**dict(sizes, **more)))
    model.set_experts_implementation("eager")
    return model


def vit(**more):
    config = transformers.ViTConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=2, image_size=40, patch_size=8,
                                    num_labels=5, initializer_range=0.3, **more)
    return transformers.ViTForImageClassification._from_config(config)


def bert(**more):
    sizes = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "initializer_range")}
    none = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertForMaskedLM._from_config(transformers.BertConfig(**sizes, num_attention_heads=2, **none, **more))


def t5(**more):
    config = transformers.T5Config(vocab_size=WORDS, d_model=64, d_kv=32, d_ff=96, num_layers=2, num_heads=3, dropout_rate=0.0, initializer_factor=2.0,
                                   relative_attention_num_buckets=8, relative_attention_max_distance=20, pad_token_id=0, eos_token_id=None,
                                   decoder_start_token_id=0, **more)
    model = transformers.T5ForConditionalGeneration._from_config(config)
    for stack in (model.encoder, model.decoder):
        torch.nn.init.normal_(stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight, std=2)
    return model


def image_inputs(tokens):
    """Two sequences with an image each, as Gemma 3 has them: the tokens of an image see one another."""
    ids, kinds = words(2, tokens), torch.zeros(2, tokens, dtype=torch.long)
    for b, at in enumerate((5, 11)):
        ids[b, at : at + 4], kinds[b, at : at + 4] = WORDS - 1, 1
    return dict(input_ids=ids, token_type_ids=kinds, pixel_values=torch.randn(2, 3, 32, 32))


def decoder_inputs(tokens=29):
    """What decoders are asked, by name."""
    positions = torch.cat([torch.arange(n) for n in (9, 1, tokens - 10)])[None]
    return {
        "plain": dict(input_ids=words(2, tokens)),
        "one token": dict(input_ids=words(2, 1)),
        "padded on the left": dict(input_ids=words(3, tokens), attention_mask=padded([0, 7, 20], [0, 0, 0], tokens)),
        "padded on the right": dict(input_ids=words(3, tokens), attention_mask=padded([0, 0, 0], [0, 7, 20], tokens)),
        "padded in the middle": dict(input_ids=words(2, tokens), attention_mask=1 - padded([5, 8], [20, 1], tokens)),
        "padded on both sides": dict(input_ids=words(2, tokens), attention_mask=padded([2, 9], [3, 1], tokens)),
        "documents": dict(input_ids=words(1, tokens), position_ids=positions, use_cache=False),
    }


def cases():
    """(name, model, {name of inputs: inputs}): the models whose logits and gradients are compared."""
    decoder, images = decoder_inputs(), {"images": image_inputs(29)}
    encoder = {name: decoder[name] for name in ("plain", "padded on the left", "padded on the right")}
    yield "Llama", llama(), decoder
    yield "Gemma 3", gemma3(), {**decoder, **images}
    yield "Gemma 2", gemma2(), encoder
    yield "T5", t5(), {name: dict(inputs, decoder_input_ids=words(len(inputs["input_ids"]), 17)) for name, inputs in encoder.items()}
    yield "gpt-oss", gpt_oss(), decoder
    yield "Llama 4", llama4(), decoder
    yield "ViT", vit(), {"images": dict(pixel_values=torch.randn(3, 3, 40, 40))}
    yield "BERT", bert(), encoder


def evaluate(model, implementation, inputs, gradients=False):
    """Logits of the tokens that are no padding, and the gradients of every parameter from a cross entropy."""
    model.set_attn_implementation(implementation)
    model.train(gradients)
    model.zero_grad()
    with contextlib.nullcontext() if gradients else torch.no_grad():
        logits = model(**copy.copy(inputs)).logits
        tokens = inputs.get("attention_mask") if "decoder_input_ids" not in inputs else None
        logits = logits.flatten(0, -2) if tokens is None else logits[tokens.bool()]
    if not gradients:
        return logits
    targets = torch.arange(len(logits)) * 7 % logits.shape[-1]
    torch.nn.functional.cross_entropy(logits, targets).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def by_definition(module, query, key, value, mask, scaling=None, softcap=None, s_aux=None, position_bias=None, **kwargs):
    """Attention as it is written down, in the tensors' dtype, with masks of bools."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores if position_bias is None else scores + position_bias
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    sinks = scores.new_full((1,), -torch.inf) if s_aux is None else s_aux.to(scores)
    scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(*query.shape[:2], query.shape[2], 1)], -1)
    largest = scores.amax(-1, keepdim=True).detach()
    weights = torch.exp(scores - largest.masked_fill(largest == -torch.inf, 0))
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return (weights[..., :-1] @ value).transpose(1, 2), None


def mask_of_bools(*args, **kwargs):
    return masks.sdpa_mask(*args, **{**kwargs, "allow_is_causal_skip": False})


transformers.AttentionInterface.register("by_definition", by_definition)
transformers.AttentionMaskInterface.register("by_definition", mask_of_bools)


def wide(thing):
    """A copy of a model, or of the tensors of its inputs, in float64."""
    if isinstance(thing, dict):
        return {name: wide(value) for name, value in thing.items()}
    if isinstance(thing, torch.nn.Module):
        return copy.deepcopy(thing).double()
    return thing.double() if isinstance(thing, torch.Tensor) and thing.is_floating_point() else thing


class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.done = self.left_out = 0

    def tearDown(self):
        left_out = f"{self.left_out} of {self.done + self.left_out} cases are not in the library"
        if self.done == 0 and self.left_out:
            self.skipTest(left_out)
        if self.left_out:
            print(f"{self.id().split('.')[-1]}: {left_out}", file=sys.stderr)

    @contextlib.contextmanager
    def case(self, **names):
        with self.subTest(**names):
            try:
                yield
                self.done += 1
            except GlintError as refusal:
                self.assertIn("GLINT_NOT_IN_SPEC", str(refusal))
                self.left_out += 1

    def close(self, got, plain, true, size=0.0, what="logits"):
        """At most three times the error of eager attention, and BOUND of the largest entry, or of `size` where that is larger."""
        error, own = ((t.double() - true).abs().max().item() for t in (got, plain))
        self.assertLessEqual(error, 3 * own + BOUND * max(size, true.abs().max().item()), what)

    def test_logits(self):
        for name, model, inputs in cases():
            for kind, i in inputs.items():
                with self.case(model=name, inputs=kind):
                    self.close(evaluate(model, "glint", i), evaluate(model, "eager", i), evaluate(wide(model), "by_definition", wide(i)))
        self.assertGreater(self.done, 0)

    def test_gradients(self):
        """Of every parameter, sinks too. Some are 0 but for rounding, such as that of a bias of keys, and so a tenth of the largest counts."""
        for name, model, inputs in cases():
            for kind, i in inputs.items():
                with self.case(model=name, inputs=kind):
                    got, plain, true = (evaluate(m, implementation, j, gradients=True) for m, implementation, j in
                                        [(model, "glint", i), (model, "eager", i), (wide(model), "by_definition", wide(i))])
                    self.assertEqual(got.keys(), true.keys())
                    largest = max(g.abs().max().item() for g in true.values())
                    for parameter in true:
                        self.close(got[parameter], plain[parameter], true[parameter], largest / 10, parameter)
        self.assertGreater(self.done, 0)


    def test_generate(self):
        """Greedily, from a cache that grows, one of a fixed size, and none: the tokens of eager attention."""
        decoder, images = decoder_inputs(), image_inputs(29)
        for name, model, more in [("Llama", llama(), {}), ("Gemma 3", gemma3(), {"images": images}), ("gpt-oss", gpt_oss(), {}), ("Llama 4", llama4(), {}),
                                  ("T5", t5(), {"padded on the right": decoder["padded on the right"]})]:
            model.eval()
            inputs = {**{kind: decoder[kind] for kind in ("plain", "padded on the left")}, **more}
            for (kind, i), cache in itertools.product(inputs.items(), [{}, {"cache_implementation": "static"}, {"use_cache": False}]):
                with self.case(model=name, inputs=kind, cache=cache):
                    tokens = {}
                    for implementation in ("eager", "glint"):
                        model.set_attn_implementation(implementation)
                        tokens[implementation] = model.generate(**i, max_new_tokens=12, do_sample=False, **cache)
                    self.assertEqual(tokens["eager"].shape[1], 12 + (1 if name == "T5" else 29))
                    self.assertTrue(torch.equal(tokens["glint"], tokens["eager"]))

    def test_prompt_in_parts(self):
        """A prompt in two parts, with a cache between them, has the logits of the whole; with padding, too."""
        for name, model in [("Llama", llama()), ("Gemma 3", gemma3()), ("gpt-oss", gpt_oss())]:
            model.eval()
            for attention_mask in (None, padded([0, 4], [0, 0], 29)):
                ids = words(2, 29)
                with self.case(model=name, padded=attention_mask is not None), torch.no_grad():
                    whole = {}
                    for implementation in ("glint", "eager"):
                        model.set_attn_implementation(implementation)
                        whole[implementation] = model(ids, attention_mask=attention_mask).logits[:, 13:]
                    model.set_attn_implementation("glint")
                    first = model(ids[:, :13], attention_mask=None if attention_mask is None else attention_mask[:, :13], use_cache=True)
                    second = model(ids[:, 13:], attention_mask=attention_mask, past_key_values=first.past_key_values).logits
                    self.close(second, whole["glint"], whole["eager"].double())

    def test_masks_of_the_caller(self):
        """Four-dimensional masks, of bools and of numbers."""
        model, ids = llama(), words(2, 29)
        seen = torch.ones(29, 29, dtype=torch.bool).tril().triu(-4)[None, None]
        holes = seen & (torch.rand(2, 1, 29, 29) < 0.8) | torch.eye(29, dtype=torch.bool)
        heads = seen & (torch.rand(1, 4, 29, 29) < 0.8) | torch.eye(29, dtype=torch.bool)
        least = torch.finfo(torch.float32).min
        for name, mask in [("bools", seen), ("bools of heads", seen.expand(2, 4, -1, -1)), ("numbers", torch.where(seen, 0.0, least)),
                           ("holes", holes), ("holes of numbers", torch.where(holes, 0.0, least)), ("heads that differ", heads),
                           ("a bias", torch.where(seen, torch.randn(2, 4, 29, 29), least))]:
            with self.case(mask=name), torch.no_grad():
                model.set_attn_implementation("eager")
                want = model(ids, attention_mask=torch.where(mask, 0.0, least) if mask.dtype == torch.bool else mask).logits
                model.set_attn_implementation("glint")
                self.close(model(ids, attention_mask=mask).logits, want, want.double())

    def test_cu_seq_lens(self):
        """Documents by the places where they start, as the collator of flattened batches gives them."""
        model, ids = llama(), words(1, 29)
        starts = torch.tensor([0, 9, 10, 29], dtype=torch.int32)
        positions = torch.cat([torch.arange(n) for n in (9, 1, 19)])[None]
        want = evaluate(model, "eager", dict(input_ids=ids, position_ids=positions, use_cache=False))
        for more in ({}, {"use_cache": False}):  # a cache: the library then makes a causal mask that knows no documents
            with self.case(**more):
                got = evaluate(model, "glint", dict(input_ids=ids, position_ids=positions, cu_seq_lens_q=starts, cu_seq_lens_k=starts, **more))
                self.close(got, want, want.double())

    def test_documents(self):
        """Documents beside a mask of padding: the bounds of both."""
        q = torch.zeros(1, 4, 12, 32)
        starts = torch.tensor([2, 5, 6, 10], dtype=torch.int64)
        document_begin, document_end = [0, 0, 2, 2, 2, 5, 6, 6, 6, 6, 10, 10], [2, 2, 5, 5, 5, 6, 10, 10, 10, 10, 12, 12]
        for arguments in ({}, {"causal": "bottom_right"}, {"key_begin": torch.full((1, 12), 3).int(), "key_end": torch.full((1, 12), 8).int()}):
            got = glint.documents(q, q, starts, starts, arguments)
            cut = "key_begin" in arguments
            self.assertEqual(got["key_begin"].tolist(), [[max(j, 3) if cut else j for j in document_begin]])
            self.assertEqual(got["key_end"].tolist(), [[min(j, 8) if cut else j for j in document_end]])
            self.assertEqual((got["key_begin"].dtype, got["key_end"].dtype), (torch.int32, torch.int32))
            self.assertEqual(got.get("causal"), arguments.get("causal"))

    def test_bfloat16(self):
        """At most one and a half times the error of eager attention in bfloat16."""
        model = llama()
        i = decoder_inputs()["padded on the left"]
        true = evaluate(wide(model), "by_definition", i)
        half = copy.deepcopy(model).bfloat16()
        with self.case():
            got, plain = evaluate(half, "glint", i), evaluate(half, "eager", i)
            error, own = ((t.double() - true).pow(2).mean().sqrt().item() for t in (got, plain))
            self.assertLess(error, 1.5 * own)
            self.assertLess(own, 0.1 * true.abs().max().item())

    def test_numbers_of_a_mask(self):
        """A mask that has lost its attribute says the same by its numbers, to the bit."""
        transformers.AttentionInterface.register("numbers", glint.glint_attention)
        transformers.AttentionMaskInterface.register("numbers", lambda *args, **kwargs: glint.glint_mask(*args, **kwargs).clone())
        for name, model, inputs in itertools.islice(cases(), 2):
            for kind, i in inputs.items():
                with self.case(model=name, inputs=kind):
                    self.assertTrue(torch.equal(evaluate(model, "numbers", i), evaluate(model, "glint", i)))

    def test_checkpointing(self):
        """Layers computed again in the backward pass have the gradients of layers that were kept."""
        for reentrant in (False, True):
            model = llama()
            i = decoder_inputs()["padded on the left"]
            with self.case(reentrant=reentrant):
                want = evaluate(model, "glint", i, gradients=True)
                model.gradient_checkpointing_enable({"use_reentrant": reentrant})
                got = evaluate(model, "glint", i, gradients=True)
                for parameter in want:
                    self.assertTrue(torch.equal(got[parameter], want[parameter]), parameter)

    def test_refusals(self):
        q, k = torch.zeros(2, 4, 5, 32), torch.zeros(2, 2, 7, 32)
        one = torch.ones(2, 1, 5, 7)
        made = glint.glint_mask(2, 5, 6, q_offset=1)
        starts = torch.tensor([0, 5], dtype=torch.int32)
        for message, more in [("dropout 0.1", dict(dropout=0.1)), ("which Glint never has", dict(output_attentions=True)),
                              ("a choice of keys", dict(indices=torch.zeros(1))), ("sinks that have a key", dict(sinks=(q, q))),
                              ("bias must be", dict(position_bias=torch.zeros(1, 4, 5, 8), is_causal=False)),
                              ("torch.int64: bool", dict(attention_mask=one.long())), ("does not fit", dict(attention_mask=one[..., :6])),
                              ("made for 6 keys, and the layer has 7", dict(attention_mask=made)), ("no mask came, and 5 queries", dict(is_causal=True)),
                              ("window of 3 keys", dict(key=q, value=q, is_causal=True, sliding_window=3)),
                              ("cu_seq_lens_q with 2", dict(is_causal=False, cu_seq_lens_q=starts))]:
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                glint.glint_attention(torch.nn.Module(), **{**dict(query=q, key=k, value=k, attention_mask=None), **more})


class Masks(unittest.TestCase):
    """Masks without a model: what glint_mask() says, written out, is what the library's own function says."""

    def written_out(self, arguments, batch, queries, keys):
        """bool [batch, queries, keys]: what the arguments of glint_torch.attention() show."""
        i, j = torch.arange(queries)[:, None], torch.arange(keys)
        place = i + keys - queries + arguments.get("diagonal", 0)
        left, right = arguments.get("window", (None, None))
        right = 0 if arguments.get("causal") else right
        seen = torch.ones(batch, queries, keys, dtype=torch.bool)
        seen &= True if left is None else j >= place - left
        seen &= True if right is None else j <= place + right
        seen &= j < arguments["seqlens_k"][:, None, None] if "seqlens_k" in arguments else True
        if "key_begin" in arguments:
            seen &= (j >= arguments["key_begin"][..., None]) & (j < arguments["key_end"][..., None])
        return seen

    def functions(self, tokens):
        blocks = torch.tensor([[-1, -1, 0, 0, 0, -1, 1, 1, -1] + [-1] * (tokens - 9), [0, 0, 0, -1, 1, -1, -1, -1, 2] + [2] * (tokens - 9)])
        documents = torch.tensor([[0] * 5 + [1] * (tokens - 5), [0] * 2 + [1] + [2] * (tokens - 3)])
        image = masks.blockwise_overlay(blocks)
        sliding = masks.sliding_window_causal_mask_function(4)
        return {
            "causal": masks.causal_mask_function,
            "all": masks.bidirectional_mask_function,
            "sliding": sliding,
            "sliding on both sides": masks.sliding_window_bidirectional_mask_function(6),
            "chunks": masks.chunked_causal_mask_function(4, torch.tensor([0, 3])),
            "images": masks.or_masks(masks.causal_mask_function, image),
            "images in a window": masks.and_masks(masks.sliding_window_overlay(5), masks.or_masks(masks.causal_mask_function, image)),
            "documents": masks.and_masks(sliding, masks.packed_sequence_mask_function(documents)),
            "a prefix": masks.or_masks(masks.causal_mask_function, lambda b, h, i, j: j < 5),
            "holes": lambda b, h, i, j: (j <= i) & (j % 3 != 1),
            "nothing": lambda b, h, i, j: j < i * 0,
        }

    def test_every_mask(self):
        lost = glint.ELEMENTS
        self.addCleanup(setattr, glint, "ELEMENTS", lost)
        compared = 0
        for queries, keys, q_offset, kv_offset, left, right, elements in itertools.product((1, 5, 14), (14, 15), (0, 1, 9), (0, 2), (0, 3), (0, 2, 99), (lost, 40)):
            total = keys + kv_offset
            if q_offset + queries > total:
                continue
            padding = {(0, 0): None, (3, 99): torch.ones(2, total - 2, dtype=torch.bool)}.get((left, right), padded([left, 0], [right, 1], total).bool())
            for name, function in self.functions(max(total, q_offset + queries)).items():
                glint.ELEMENTS = elements
                arguments = dict(q_offset=q_offset, kv_offset=kv_offset, mask_function=function, attention_mask=padding)
                want = masks.sdpa_mask(2, queries, keys, **arguments, allow_is_causal_skip=False)[:, 0]
                mask = glint.glint_mask(2, queries, keys, **arguments)
                with self.subTest(name=name, queries=queries, keys=keys, offsets=(q_offset, kv_offset), padding=(left, right)):
                    compared += 1
                    if mask.dtype == torch.bool:
                        self.assertTrue(torch.equal(mask[:, 0], want))
                        self.assertTrue(torch.equal(mask.glint[1]["bias"] == 0, mask) and (mask.glint[1]["bias"][~mask] < -1e38).all())
                        self.assertTrue(((want[..., 1:] > want[..., :-1]).sum(-1) + want[..., 0] > 1).any())  # there is a hole
                        continue
                    self.assertEqual((mask.dtype, tuple(mask.shape)), (torch.int32, (2, 1, queries, 2)))
                    begin, end = mask[:, 0].unbind(-1)
                    self.assertTrue(torch.equal(self.written_out({"key_begin": begin, "key_end": end}, 2, queries, keys), want))
                    self.assertTrue(torch.equal(self.written_out(mask.glint[1], 2, queries, keys), want))
        self.assertGreater(compared, 1000)

    def test_which_arguments(self):
        """Bands are told to Glint as bands, and padding of whole sequences as lengths."""
        function = self.functions(20)
        for name, queries, keys, offset, padding, want in [
                ("causal", 9, 9, 0, None, {"causal": "bottom_right", "diagonal": 0}),
                ("causal", 5, 9, 4, None, {"causal": "bottom_right", "diagonal": 0}),
                ("causal", 5, 20, 4, None, {"causal": "bottom_right", "diagonal": -11}),
                ("causal", 5, 20, 0, padded([0, 0], [15, 15], 20).bool(), {"causal": "bottom_right", "diagonal": -15}),
                ("causal", 1, 9, 8, None, {}),
                ("causal", 1, 20, 8, None, {"causal": "bottom_right", "diagonal": -11}),
                ("causal", 9, 9, 0, padded([0, 3], [0, 0], 9).bool(), {"key_begin", "key_end"}),
                ("all", 9, 9, 0, None, {}),
                ("all", 5, 9, 0, padded([0, 0], [0, 4], 9).bool(), {"seqlens_k"}),
                ("sliding", 9, 9, 0, None, {"causal": "bottom_right", "diagonal": 0, "window": (3, 0)}),
                ("sliding", 5, 9, 4, None, {"causal": "bottom_right", "diagonal": 0, "window": (3, 0)}),
                ("sliding on both sides", 9, 9, 0, None, {"causal": None, "diagonal": 0, "window": (6, 6)}),
                ("a prefix", 9, 9, 0, None, {"key_begin", "key_end"})]:
            with self.subTest(name=name, queries=queries, keys=keys, offset=offset):
                _, got = glint.glint_mask(2, queries, keys, q_offset=offset, mask_function=function[name], attention_mask=padding).glint
                self.assertEqual(set(got) if isinstance(want, set) else got, want)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
