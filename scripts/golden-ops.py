#!/usr/bin/env python3
"""Writes testdata/golden/ops/ops.safetensors: what PyTorch gives for the
operations of internal/device, and for their gradients, each from its own
formula in float64. internal/device/cpu/golden_test.go reads it and has the
same parameters. Run it in an environment with torch and safetensors:

    python3 scripts/golden-ops.py testdata/golden/ops/ops.safetensors
"""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(1)
out = {}


def keep(case, **tensors):
    for name, t in tensors.items():
        t = t.detach()
        if t.is_floating_point() and t.dtype == torch.float64:
            t = t.float()
        out[f"{case}.{name}"] = (t if t.dim() == 2 else t.reshape(1, -1)).contiguous().clone()


def draw(*shape, scale=1.0):
    """Normal numbers that float32 holds."""
    return (torch.randn(*shape) * scale).double().requires_grad_()


def norms():
    for name, eps, offset, kind in [("rms", 1e-5, 0, "rms"), ("offset", 1e-6, 1, "rms"), ("layer", 1e-5, 0, "layer")]:
        x, w, b, dy = draw(5, 97, scale=3), draw(97), draw(97), draw(5, 97)
        if kind == "layer":
            y = F.layer_norm(x, (97,), w, b, eps)
        else:
            y = F.rms_norm(x, (97,), w + offset, eps) + b
        (dx,) = torch.autograd.grad(y, x, dy)
        keep(f"norm.{name}", x=x, w=w, b=b, y=y, dy=dy, dx=dx)
    for name, kind in [("rms", "rms"), ("layer", "layer")]:
        x, w = draw(4, 3 * 33, scale=2), draw(33)
        heads = x.reshape(4, 3, 33)
        y = F.layer_norm(heads, (33,), w, None, 1e-6) if kind == "layer" else F.rms_norm(heads, (33,), w, 1e-6)
        keep(f"headnorm.{name}", x=x, w=w, y=y.reshape(4, 99))


def turned(x, pos, freqs, dim, dims, interleaved, scale):
    rows = x.shape[0]
    heads = x.reshape(rows, -1, dim)
    angle = pos.double()[:, None] * freqs[None, :]
    turning, rest = heads[..., :dims], heads[..., dims:]
    if interleaved:  # pairs are complex numbers (RoFormer, equation 13)
        z = torch.view_as_complex(turning.reshape(rows, -1, dims // 2, 2).contiguous())
        z = z * torch.polar(torch.ones_like(angle), angle)[:, None, :] * scale
        turning = torch.view_as_real(z).flatten(-2)
    else:  # rotate_half, as in transformers' llama
        cos, sin = (torch.cat([f(angle)] * 2, -1)[:, None, :] * scale for f in (torch.cos, torch.sin))
        half = torch.cat([-turning[..., dims // 2:], turning[..., : dims // 2]], -1)
        turning = turning * cos + half * sin
    return torch.cat([turning, rest], -1).reshape(rows, -1)


def ropes():
    pos = torch.tensor([0, 1, 5, 100, 4095, 131071], dtype=torch.int32)
    for name, dims, interleaved, scale in [("half", 32, False, 1), ("interleaved", 32, True, 1), ("partial", 20, False, 1), ("partial-interleaved", 12, True, 1.25)]:
        freqs = (1e4 ** -(torch.arange(dims // 2) / (dims / 2))).float().double()
        q, k = draw(6, 4 * 32), draw(6, 2 * 32)
        y, z = (turned(x, pos, freqs, 32, dims, interleaved, scale) for x in (q, k))
        dy, dz = draw(6, 4 * 32), draw(6, 2 * 32)
        dq, dk = torch.autograd.grad([y, z], [q, k], [dy, dz])
        keep(f"rope.{name}", q=q, k=k, freqs=freqs, pos=pos, y=y, z=z, dy=dy, dz=dz, dq=dq, dk=dk)


def acts():
    for name, f in [("silu", F.silu), ("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("relu", F.relu)]:
        gate, up, dy = draw(4, 71, scale=2), draw(4, 71), draw(4, 71)
        with torch.no_grad():
            gate[0, :8] = torch.tensor([-30, -10, -5, -1e-3, 1e-3, 5, 10, 30])
        y = f(gate) * up
        dgate, dup = torch.autograd.grad(y, [gate, up], dy)
        keep(f"act.{name}", gate=gate, up=up, y=y, dy=dy, dgate=dgate, dup=dup)


def caps():
    for name, scale, cap in [("cap", 0.5, 30.0), ("scale", 0.0625, 0.0)]:
        x, dy = draw(3, 51, scale=60), draw(3, 51)
        y = cap * torch.tanh(scale * x / cap) if cap else scale * x
        (dx,) = torch.autograd.grad(y, x, dy)
        keep(f"cap.{name}", x=x, y=y, dy=dy, dx=dx)


def attends():
    runs, span, heads, kv, dim = 2, 9, 4, 2, 16
    for name, window, cap in [("plain", 0, 0), ("window", 4, 0), ("softcap", 0, 5), ("both", 3, 5)]:
        q, k, v = draw(runs * span, heads * dim), draw(runs * span, kv * dim), draw(runs * span, kv * dim)
        dy, scale = draw(runs * span, heads * dim), 0.5
        split = lambda x, n: x.reshape(runs, span, n, dim).transpose(1, 2)
        far = torch.arange(span)[:, None] - torch.arange(span)[None, :]
        seen = (far >= 0) & ((far < window) if window else True)
        keys, values = (split(x, kv).repeat_interleave(heads // kv, 1) for x in (k, v))
        if cap:
            s = split(q, heads) @ keys.transpose(-1, -2) * scale
            s = cap * torch.tanh(s / cap)
            y = torch.softmax(s.masked_fill(~seen, -torch.inf), -1) @ values
        else:
            y = F.scaled_dot_product_attention(split(q, heads), keys, values, attn_mask=seen, scale=scale)
        y = y.transpose(1, 2).reshape(runs * span, heads * dim)
        dq, dk, dv = torch.autograd.grad(y, [q, k, v], dy)
        keep(f"attend.{name}", q=q, k=k, v=v, y=y, dy=dy, dq=dq, dk=dk, dv=dv)


def linears():
    for name, dtype in [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)]:
        x, b, dy = draw(13, 40), draw(33), draw(13, 33)
        w = torch.randn(33, 40).to(dtype)
        y = F.linear(x, w.double(), b)
        (dx,) = torch.autograd.grad(y, x, dy)
        keep(f"linear.{name}", x=x, w=w, b=b, y=y, dy=dy, dx=dx)


def samples():
    logits, u = draw(6, 53, scale=3), torch.rand(6)
    u[0], u[1] = 0, 1 - 2**-24
    p = torch.softmax(logits, -1)
    column = (p.cumsum(-1) <= u.double()[:, None]).sum(-1).clamp(max=52)
    loss = F.cross_entropy(logits, column, reduction="sum")
    (d,) = torch.autograd.grad(loss, logits)
    keep("sample", logits=logits, random=u, column=column.int(), d=d)


def units():
    gate, up, dy = draw(4, 71, scale=5), draw(4, 71, scale=5), draw(4, 71)
    g, u = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)  # gpt-oss, models/gpt_oss/modeling_gpt_oss.py
    y = (u + 1) * g * torch.sigmoid(1.702 * g)
    dgate, dup = torch.autograd.grad(y, [gate, up], dy)
    keep("unit.clamped", gate=gate, up=up, y=y, dy=dy, dgate=dgate, dup=dup)
    x, dy = draw(3, 51, scale=2), draw(3, 51)
    y = x.clamp(-1.5, 1.5)
    (dx,) = torch.autograd.grad(y, x, dy)
    keep("unit.clipped", x=x, y=y, dy=dy, dx=dx)


def attends_more():
    runs, span, heads, kv, dim = 2, 9, 4, 2, 16
    split = lambda x, n: x.reshape(runs, span, n, -1).transpose(1, 2)
    join = lambda y: y.transpose(1, 2).reshape(runs * span, -1)
    seen = torch.ones(span, span).tril().bool()
    q, k, v, dy = (draw(runs * span, n * dim) for n in (heads, kv, kv, heads))
    keys, values = (split(x, kv).repeat_interleave(heads // kv, 1) for x in (k, v))
    scores = split(q, heads) @ keys.transpose(-1, -2) * 0.5

    sinks = torch.tensor([-1.0, 0.5, 2.0, 0.0]).double()  # a score more, whose share is thrown away
    more = torch.cat([scores.masked_fill(~seen, -torch.inf), sinks[None, :, None, None].expand(runs, heads, span, 1)], -1)
    y = join(torch.softmax(more, -1)[..., :-1] @ values)
    dq, dk, dv = torch.autograd.grad(y, [q, k, v], dy, retain_graph=True)
    keep("attend.sinks", q=q, k=k, v=v, y=y, dy=dy, dq=dq, dk=dk, dv=dv, sinks=sinks)

    heat = 1 + 0.3 * torch.log(1 + torch.arange(span).double() // 4)  # models/llama4/modeling_llama4.py
    y = join(torch.softmax((scores * heat[:, None]).masked_fill(~seen, -torch.inf), -1) @ values)
    dq, dk, dv = torch.autograd.grad(y, [q, k, v], dy)
    keep("attend.temperature", q=q, k=k, v=v, y=y, dy=dy, dq=dq, dk=dk, dv=dv)

    q, k, dy = draw(runs * span, heads * dim), draw(runs * span, dim), draw(runs * span, heads * 12)
    keys = split(k, 1)  # of all heads; values are their last 12 columns
    scores = split(q, heads) @ keys.transpose(-1, -2) * 0.5
    y = join(torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ keys[..., dim - 12:])
    dq, dk = torch.autograd.grad(y, [q, k], dy)
    keep("attend.latent", q=q, k=k, y=y, dy=dy, dq=dq, dk=dk)


def logistics():
    gate, up, dy = draw(4, 71, scale=4), draw(4, 71), draw(4, 71)
    y = torch.sigmoid(gate) * up
    dgate, dup = torch.autograd.grad(y, [gate, up], dy)
    keep("act.sigmoid", gate=gate, up=up, y=y, dy=dy, dgate=dgate, dup=dup)


def deltas(cases=(("plain", 2, 7, 2, 2, 8, 8, 4, 1), ("grouped", 1, 41, 2, 6, 8, 12, 4, 1), ("alone", 3, 5, 1, 2, 16, 4, 1, 1))):
    # Gated Delta Networks (arXiv 2412.06464, equation 10), as models/qwen3_next has it around: row by row.
    for name, runs, span, kh, vh, kd, vd, kernel, most in cases:
        rows, keys, values = runs * span, kh * kd, vh * vd
        q, k, v, dy = draw(rows, keys), draw(rows, keys), draw(rows, values, scale=2), draw(rows, values)
        a, b, conv, decay, bias = draw(rows, vh), draw(rows, vh), draw(2 * keys + values, kernel), draw(vh), draw(vh)
        x = torch.cat([q, k, v], -1).reshape(runs, span, -1).transpose(1, 2)
        x = F.silu(F.conv1d(F.pad(x, (kernel - 1, 0)), conv[:, None], groups=conv.shape[0])).transpose(1, 2)
        heads = lambda t, n: t.reshape(runs, span, n, -1)
        unit = lambda t: t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6)
        u, w, z = x.split([keys, keys, values], -1)
        u, w = (unit(heads(t, kh)).repeat_interleave(vh // kh, 2) for t in (u, w))
        u, z = u / kd**0.5, heads(z, vh)
        g = torch.exp(-torch.exp(decay) * F.softplus(heads(a, vh)[..., 0] + bias))
        beta = most * torch.sigmoid(heads(b, vh)[..., 0])
        state, out = torch.zeros(runs, vh, vd, kd).double(), []
        for t in range(span):
            state = state * g[:, t, :, None, None]
            new = beta[:, t, :, None] * (z[:, t] - torch.einsum("rhvk,rhk->rhv", state, w[:, t]))
            state = state + new[..., None] * w[:, t, :, None]
            out.append(torch.einsum("rhvk,rhk->rhv", state, u[:, t]))
        y = torch.stack(out, 1).reshape(rows, values)
        names = ("q", "k", "v", "a", "b")
        grads = dict(zip(("d" + n for n in names), torch.autograd.grad(y, [q, k, v, a, b], dy)))
        last = torch.cat([q, k, v], -1).reshape(runs, span, -1)[:, span - kernel + 1:] if kernel > 1 else torch.zeros(runs, 1, 1)
        keep(f"delta.{name}", q=q, k=k, v=v, a=a, b=b, conv=conv, decay=decay, bias=bias, y=y, dy=dy, state=state.reshape(runs, -1),
             inputs=last.reshape(runs, -1), **grads)


def convolved(x, weights, bias):
    """A causal convolution of each column of x [runs, span, columns]."""
    kernel = weights.shape[1]
    return F.conv1d(F.pad(x.transpose(1, 2), (kernel - 1, 0)), weights[:, None], bias, groups=weights.shape[0]).transpose(1, 2)


def scans():
    # Mamba-2 (arXiv 2405.21060, equation 1), as models/mamba2 has it around: row by row, C, B and x being q, k and v.
    for name, runs, span, kh, vh, kd, vd, kernel, least in [("plain", 2, 7, 2, 2, 8, 8, 4, 0), ("grouped", 1, 41, 2, 6, 8, 12, 4, 0.5), ("alone", 3, 5, 1, 2, 16, 4, 1, 0)]:
        rows, keys, values = runs * span, kh * kd, vh * vd
        q, k, v, dy, a = draw(rows, keys), draw(rows, keys), draw(rows, values, scale=2), draw(rows, values), draw(rows, vh)
        conv, shift, decay, bias, skip = draw(2 * keys + values, kernel), draw(2 * keys + values), draw(vh), draw(vh), draw(vh)
        x = F.silu(convolved(torch.cat([q, k, v], -1).reshape(runs, span, -1), conv, shift))
        heads = lambda t, n: t.reshape(runs, span, n, -1)
        c, b, z = x.split([keys, keys, values], -1)
        c, b = (heads(t, kh).repeat_interleave(vh // kh, 2) for t in (c, b))
        z, step = heads(z, vh), torch.clamp(F.softplus(heads(a, vh)[..., 0] + bias), min=least)
        state, out = torch.zeros(runs, vh, vd, kd).double(), []
        for t in range(span):
            state = state * torch.exp(-torch.exp(decay) * step[:, t])[..., None, None] + (step[:, t, :, None] * z[:, t])[..., None] * b[:, t, :, None]
            out.append(torch.einsum("rhvk,rhk->rhv", state, c[:, t]) + skip[:, None] * z[:, t])
        y = torch.stack(out, 1).reshape(rows, values)
        grads = dict(zip(("dq", "dk", "dv", "da"), torch.autograd.grad(y, [q, k, v, a], dy)))
        keep(f"scan.{name}", q=q, k=k, v=v, a=a, conv=conv, shift=shift, decay=decay, bias=bias, skip=skip, y=y, dy=dy, state=state.reshape(runs, -1), **grads)

    x, gate, w = draw(5, 48), draw(5, 48, scale=3), draw(48)
    g = (x * F.silu(gate)).reshape(5, 3, 16)
    keep("gatednorm", x=x, gate=gate, w=w, y=(g * torch.rsqrt((g * g).mean(-1, keepdim=True) + 1e-5)).reshape(5, 48) * w)


def short_convolutions():
    # models/lfm2/modeling_lfm2.py, Lfm2ShortConv
    for name, runs, span, cols, kernel in [("plain", 2, 7, 24, 3), ("alone", 3, 4, 5, 1)]:
        b, c, x, dy = (draw(runs * span, cols) for _ in range(4))
        conv, bias = draw(cols, kernel), draw(cols)
        y = c * convolved((b * x).reshape(runs, span, cols), conv, bias).reshape(runs * span, cols)
        db, dc, dx = torch.autograd.grad(y, [b, c, x], dy)
        keep(f"short.{name}", b=b, c=c, x=x, dy=dy, conv=conv, bias=bias, y=y, db=db, dc=dc, dx=dx)


def heads_gated():
    for name, f in [("sigmoid", torch.sigmoid), ("softplus", F.softplus)]:
        x, gate, dy = draw(5, 3 * 17), draw(5, 3, scale=4), draw(5, 3 * 17)
        y = (x.reshape(5, 3, 17) * f(gate)[..., None]).reshape(5, 51)
        dx, dgate = torch.autograd.grad(y, [x, gate], dy)
        keep(f"headgates.{name}", x=x, gate=gate, y=y, dy=dy, dx=dx, dgate=dgate)


def more_units():
    gate, up, dy = draw(4, 71, scale=4), draw(4, 71), draw(4, 71)
    y = F.softplus(gate) * up
    dgate, dup = torch.autograd.grad(y, [gate, up], dy)
    keep("act.softplus", gate=gate, up=up, y=y, dy=dy, dgate=dgate, dup=dup)
    x, dy = draw(4, 71, scale=3), draw(4, 71)
    positive, negative, beta, least = 1.1, 0.7, 0.5, torch.tensor(-1e-6).double()  # transformers' activations.py, XIELUActivation
    y = torch.where(x > 0, positive * x * x + beta * x, (torch.expm1(torch.min(x, least)) - x) * negative + beta * x)
    (dx,) = torch.autograd.grad(y, x, dy)
    keep("xielu.layer", x=x, y=y, dy=dy, dx=dx)
    gate, up, dy = draw(4, 71, scale=5), draw(4, 71, scale=5), draw(4, 71)
    y = F.silu(gate).clamp(max=3.0) * up.clamp(min=-3.0, max=3.0)  # Step, models/step3p7/modeling_step3p7.py
    dgate, dup = torch.autograd.grad(y, [gate, up], dy)
    keep("unit.limited", gate=gate, up=up, y=y, dy=dy, dgate=dgate, dup=dup)


def more_deltas():
    deltas([("twice", 2, 9, 2, 2, 8, 16, 4, 2)])  # models/olmo_hybrid, linear_allow_neg_eigval


for make in (norms, ropes, acts, caps, attends, linears, samples, units, attends_more, logistics, deltas, scans, short_convolutions, heads_gated, more_units, more_deltas):
    make()
save_file(out, sys.argv[1])
