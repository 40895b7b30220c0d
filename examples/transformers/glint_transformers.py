"""Glint as an attention of the `transformers` library: import this file, then ask for attn_implementation="glint".

    import glint_transformers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="glint")   # or model.set_attn_implementation("glint")

The library asks two functions, which are registered here. glint_mask() makes the mask of a forward pass, once for all layers that share it, and
glint_attention() is called by each layer. Between the two a mask is an int32 tensor [batch, 1, queries, 2]: query i of sequence b sees the
keys mask[b, 0, i, 0] <= j < mask[b, 0, i, 1]. A mask that shows some query keys with a hole between them is the library's own, of bools: it is
added to scores as a bias.

A mask also has the attribute `glint`: how many keys it is for, and the shortest way to say it as arguments of glint_torch.attention(), such as
causal and window. What copies the tensor may lose the attribute; the numbers say the same.
"""

import pathlib
import sys

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "pytorch"))
from glint_torch import attention  # noqa: E402

ELEMENTS = 1 << 24  # of a mask that are looked at together: one byte each, and some copies
OTHERS = 'attn_implementation="sdpa" or "eager" takes it'

# Arguments that models of transformers 5.24 give an attention and that change what it computes, beside those of glint_attention().
REFUSED = {
    "indices": "a choice of keys for each query",
    "block_indices": "a choice of blocks of keys for each query",
    "sinks": "sinks that have a key and a value",
    "head_mask": "a weight for each head",
    "output_attentions": "the weights of the attention as a result, which Glint never has in memory",
}


class Hole(Exception):
    """A query sees a key before one that it does not see, and a key after it."""


def seen_intervals(seen):
    """The keys that queries see, bool [batch, queries, keys], as int32 [batch, queries, 2]: the first of them and the one after the last, or 0, 0."""
    keys = seen.shape[-1]
    if keys == 0:
        return torch.zeros(*seen.shape[:2], 2, dtype=torch.int32, device=seen.device)
    begin = seen.byte().argmax(-1, keepdim=True)  # the first of equals
    some = seen.gather(-1, begin)
    begin, end = (torch.where(some, t, 0).int() for t in (begin, keys - seen.flip(-1).byte().argmax(-1, keepdim=True)))
    key = torch.arange(keys, dtype=torch.int32, device=seen.device)
    within = (begin <= key) & (key < end)
    if not torch.equal(within, seen):
        raise Hole
    return torch.cat([begin, end], -1)


def shortest(bounds, offset, keys):
    """The shortest arguments of glint_torch.attention() that say what bounds, int32 [batch, queries, 2], say. Query i stands at key i + offset."""
    begin, end = bounds.unbind(-1)
    batch, queries = end.shape
    if batch * queries == 0:
        return {}
    # If it is a band, its sides are where the last query begins and where the first one ends.
    last_begin, first_end = begin[0, -1].item(), end[0, 0].item()
    left = queries - 1 + offset - last_begin if last_begin > 0 else None
    right = first_end - 1 - offset if first_end < keys else None
    if (left is None or left >= 0) and (right is None or right >= 0):
        if torch.equal(bounds, band(batch, queries, keys, offset, left, right, bounds.device)):
            if left is None and right is None:
                return {}
            diagonal = {"diagonal": offset - (keys - queries)}
            window = {} if left is None and right == 0 else {"window": (left, right)}
            return {"causal": "bottom_right" if right == 0 else None, **diagonal, **window}
    if not begin.any() and (end == end[:, :1]).all():
        return {"seqlens_k": end[:, 0].contiguous()}
    return {"key_begin": begin.contiguous(), "key_end": end.contiguous()}


def band(batch, queries, keys, offset, left, right, device):
    """The bounds of a band: query i, which stands at key i + offset, sees `left` keys before that and `right` after it; None is no limit."""
    place = torch.arange(queries, device=device) + offset
    begin = torch.zeros_like(place) if left is None else (place - left).clamp(0, keys)
    end = torch.full_like(place, keys) if right is None else (place + right + 1).clamp(0, keys)
    return torch.stack([begin, end], -1).int().expand(batch, -1, -1)


def glint_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=causal_mask_function, attention_mask=None, use_vmap=False,
               device="cpu", **kwargs):
    """The mask of a forward pass: mask_function(b, h, i, j), and `attention_mask` [batch, tokens], which is false where there is padding. The
    function is asked about all pairs of a query and a key, some rows at a time; the plainest functions are known."""
    offset = int(q_offset) - int(kv_offset)
    sides = {causal_mask_function: (None, 0), bidirectional_mask_function: (None, None)}.get(mask_function)
    tokens = slice(int(kv_offset), int(kv_offset) + kv_length)
    if sides and (attention_mask is None or attention_mask.shape[-1] >= tokens.stop and attention_mask[:, tokens].all()):
        bounds = band(batch_size, q_length, kv_length, offset, *sides, device)
    else:
        rows = max(1, ELEMENTS // max(1, batch_size * kv_length))
        parts = [torch.zeros(batch_size, 0, 2, dtype=torch.int32, device=device)]

        def seen(at, count):
            return sdpa_mask(batch_size, count, kv_length, q_offset + at, kv_offset, mask_function, attention_mask, allow_is_causal_skip=False,
                             allow_is_bidirectional_skip=False, use_vmap=use_vmap, device=device)

        try:
            for at in range(0, q_length, rows):
                parts.append(seen_intervals(seen(at, min(rows, q_length - at))[:, 0]))
        except Hole:
            mask = seen(0, q_length).clone()
            mask.glint = kv_length, {"bias": as_bias(mask)}
            return mask
        bounds = torch.cat(parts, 1)
    mask = bounds[:, None].clone()
    mask.glint = kv_length, shortest(bounds, offset, kv_length)
    return mask


def as_bias(mask):
    """What is added to scores for a mask of bools."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, torch.finfo(torch.float32).min)


def dense_mask(mask, query, keys):
    """The arguments that say a mask that the caller of the model made: bool, true where a key is seen, or numbers that are added to scores;
    [batch, heads, queries, keys], each or 1. Of numbers 0 shows a key and the least of the dtype hides it; others are a bias."""
    batch, heads, queries, _ = query.shape
    if mask.dim() != 4 or any(size not in (1, full) for size, full in zip(mask.shape, (batch, heads, queries))) or mask.shape[3] != keys:
        raise ValueError(f"a mask of shape {tuple(mask.shape)} and {mask.dtype} does not fit {batch} sequences of {queries} queries and {keys} keys")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(f"a mask of {mask.dtype}: bool or floating numbers have a meaning here")
    seen = mask if mask.dtype == torch.bool else mask == 0
    if not mask.requires_grad and (seen == seen[:, :1]).all() and (mask is seen or (seen | (mask <= torch.finfo(mask.dtype).min / 2)).all()):
        try:
            return shortest(seen_intervals(seen[:, 0].expand(batch, queries, keys)), keys - queries, keys)
        except Hole:
            pass
    return {"bias": as_bias(mask) if mask is seen else mask if mask.dtype in (torch.float32, query.dtype) else mask.float()}


def mask_arguments(module, mask, query, key, is_causal, sliding_window):
    """The arguments of glint_torch.attention() for the mask that a layer has got."""
    batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
    if mask is None:  # of a model that makes no masks, so the module says what it wants, as it does for "sdpa"
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        if queries == 1 or not causal:
            return {}
        if queries != keys:
            raise ValueError(f"no mask came, and {queries} queries may be aligned with {keys} keys in two ways. {OTHERS}")
        if sliding_window is not None and keys > sliding_window:
            raise ValueError(f"no mask came, though the layer has a window of {sliding_window} keys. {OTHERS}")
        return {"causal": "bottom_right"}
    of_mask, arguments = getattr(mask, "glint", (keys, None))
    if of_mask != keys:
        raise ValueError(f"the mask was made for {of_mask} keys, and the layer has {keys}. {OTHERS}")
    if arguments is not None and mask.shape[0] == batch:
        return arguments
    if mask.dtype == torch.int32 and tuple(mask.shape[1:]) == (1, queries, 2) and mask.shape[0] in (1, batch):
        begin, end = mask[:, 0].expand(batch, -1, -1).unbind(-1)
        return {"key_begin": begin.contiguous(), "key_end": end.contiguous()}
    return dense_mask(mask, query, keys)


def documents(query, key, starts_q, starts_k, arguments):
    """`arguments` for a batch of one, in which documents follow one another: document n has the rows starts[n] <= i < starts[n + 1]."""
    if query.shape[0] != 1 or query.shape[2] != key.shape[2] or starts_k is not None and not torch.equal(starts_q, starts_k):
        raise ValueError(f"cu_seq_lens_q with {query.shape[0]} sequences, or with other cu_seq_lens_k: Glint's registration takes documents that share one "
                         f"sequence, each with as many keys as queries. {OTHERS}")
    if "seqlens_k" in arguments:
        raise ValueError(f"cu_seq_lens_q beside a mask that hides padding. {OTHERS}")
    rows = torch.arange(query.shape[2], device=query.device, dtype=torch.int32)
    of = torch.bucketize(rows, starts_q.to(rows), right=True)
    bounds = torch.cat([torch.zeros_like(starts_q[:1]), starts_q, torch.full_like(starts_q[:1], query.shape[2])]).to(rows)
    begin, end = bounds[of][None], bounds[of + 1][None]
    if "key_begin" in arguments:
        begin, end = torch.maximum(begin, arguments["key_begin"]), torch.minimum(end, arguments["key_end"])
    return {**arguments, "key_begin": begin, "key_end": end}


def glint_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, sliding_window=None, softcap=None,
                    s_aux=None, position_bias=None, cu_seq_lens_q=None, cu_seq_lens_k=None, **kwargs):
    """Exact attention of query [batch, heads, queries, head_dim] to key and value [batch, heads of keys, keys, head_dim]: returns O
    [batch, queries, heads, head_dim], and None in the place of weights. s_aux: a logit a head that only the denominator has. position_bias:
    [batch or 1, heads, queries, keys], which is added to scores."""
    if dropout:
        raise ValueError(f"dropout {dropout}: Glint's attention has none. Set attention_dropout (dropout_rate, attention_probs_dropout_prob) of the "
                         "model's configuration to 0, or call model.eval()")
    for name, what in REFUSED.items():
        if kwargs.get(name) is not None and kwargs[name] is not False:
            raise ValueError(f"the model asks for {what} ({name}). {OTHERS}")
    arguments = mask_arguments(module, attention_mask, query, key, is_causal, sliding_window)
    if position_bias is not None:
        arguments = {**arguments, "bias": position_bias if "bias" not in arguments else position_bias + arguments["bias"]}
    if cu_seq_lens_q is not None:
        arguments = documents(query, key, cu_seq_lens_q, cu_seq_lens_k, arguments)
    sinks = None if s_aux is None else s_aux.float()
    o = attention(query, key, value, scale=scaling, softcap=softcap or 0.0, sinks=sinks, **arguments)
    return o.transpose(1, 2).contiguous(), None


AttentionInterface.register("glint", glint_attention)
AttentionMaskInterface.register("glint", glint_mask)
