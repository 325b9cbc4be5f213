"""Which ops, streams, lines and names the hooks attribute accesses to."""

from pathlib import Path

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run


def test_cached_autocast_weight_used_on_another_stream_is_reported(tmp_path: Path) -> None:
    """Autocast casts a weight on the stream of its first use; later uses share the copy."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        weight = torch.zeros(64, 64, device="cuda", requires_grad=True)
        x = torch.zeros(8, 64, device="cuda", dtype=torch.bfloat16)
        torch.cuda.synchronize()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.cuda.stream(side):
                first = torch.nn.functional.linear(x, weight)
            second = torch.nn.functional.linear(x, weight)
        """,
    )

    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::copy_", "write", "side", "first = torch.nn.functional.linear(x, weight)"),
        second=Side(
            "aten::mm", "read", "default", "second = torch.nn.functional.linear(x, weight)"
        ),
        size=64 * 64 * 2,
    )


def test_autocast_weight_is_clean_on_one_stream(tmp_path: Path) -> None:
    """The same two uses on one stream are ordered by it."""
    outcome = run(
        tmp_path,
        """
        weight = torch.zeros(64, 64, device="cuda", requires_grad=True)
        x = torch.zeros(8, 64, device="cuda", dtype=torch.bfloat16)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            first = torch.nn.functional.linear(x, weight)
            second = torch.nn.functional.linear(x, weight)
        """,
    )

    assert_clean(outcome, ops_at_least=4)


def test_views_and_metadata_touch_nothing(tmp_path: Path) -> None:
    """Making views, no-op conversions, record_stream and metadata changes are no accesses."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(4, 4, device="cuda")
        torch.cuda.synchronize()
        before = hooks.coverage()["ops"]
        with torch.cuda.stream(side):
            x.view(16), x.t(), x[1:, ::2], x.reshape(2, 8), x.contiguous(), x.to("cuda")
            x.detach(), x.unsqueeze(0), x.expand(3, 4, 4), x.unfold(0, 2, 1), x.data, x.chunk(2)
            x.record_stream(torch.cuda.default_stream())
            torch.empty(4, device="cuda"), torch.empty_like(x), torch.empty_strided((2,), (1,))
            x.new_empty(3), torch.empty(0, device="cuda").set_(x), x.is_set_to(x)
            y = x.view(16)
            y.unsqueeze_(0), y.squeeze_(0), y.t_(), x.detach_(), y.requires_grad_()
        assert hooks.coverage()["ops"] == before, hooks.coverage()["ops"] - before
        """,
    )

    assert_clean(outcome)


def test_backward_op_carries_the_forward_line(tmp_path: Path) -> None:
    """An op of autograd's own thread has no Python frames; its forward op's line stands for it."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(64, device="cuda", requires_grad=True)
        y = torch.ones(64, device="cuda")
        z = x * y
        loss = z.sum()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            y.data.fill_(2)
        loss.backward()
        """,
    )

    assert [f["code"] for f in outcome.findings] == ["SG001"]
    second = outcome.findings[0]["second"]
    assert (second["op"], second["access"]) == ("aten::mul", "read")
    assert second["frames"] == []
    lines = outcome.program.read_text().splitlines()
    assert [lines[n - 1] for _, n, _ in second["forward_frames"][:1]] == ["z = x * y"]


def test_peer_copy_runs_on_the_source_stream_and_orders_both_sides(tmp_path: Path) -> None:
    """torch makes the copying stream wait for the destination's, and the destination's for it."""
    outcome = run(
        tmp_path,
        """
        x = torch.ones(1024, device="cuda:0")
        y = torch.zeros(1024, device="cuda:1")
        y.copy_(x)
        y.mul_(2)
        x.mul_(2)
        """,
        devices=2,
    )

    assert_clean(outcome, ops_at_least=5)
    copies = {s["name"]: s["ops"] for s in outcome.coverage["streams"]}
    assert copies == {"default stream (device 0)": 3, "default stream (device 1)": 2}


def test_peer_copy_is_unordered_for_a_third_stream(tmp_path: Path) -> None:
    """A side stream of the destination must wait like for any other writer."""
    outcome = run(
        tmp_path,
        """
        x = torch.ones(1024, device="cuda:0")
        y = torch.zeros(1024, device="cuda:1")
        side = torch.cuda.Stream("cuda:1")
        torch.cuda.synchronize("cuda:1")
        y.copy_(x)
        with torch.cuda.stream(side):
            y.mul_(2)
        """,
        devices=2,
    )

    finding = assert_only_finding(
        outcome,
        code="SG003",
        kind="WAW",
        first=Side("aten::copy_", "write", "default", "y.copy_(x)"),
        second=Side("aten::mul_", "write", "side", "y.mul_(2)"),
        size=4096,
    )
    assert finding["first"]["stream"]["device"] == 0
    assert finding["second"]["stream"]["device"] == 1


def test_list_ops_access_every_tensor(tmp_path: Path) -> None:
    """A foreach op writes each tensor of its list, so one unordered reader is enough."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        tensors = [torch.zeros(n, device="cuda") for n in (8, 16, 32)]
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch._foreach_add_(tensors, 1)
        total = tensors[1].sum()
        """,
    )

    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::_foreach_add_", "write", "side", "torch._foreach_add_(tensors, 1)"),
        second=Side("aten::sum", "read", "default", "total = tensors[1].sum()"),
        size=64,
    )


def test_names_given_before_and_after_the_access_apply(tmp_path: Path) -> None:
    """Names hold from their op on, and for earlier ops on the same block; roles name streams."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        hooks.name_stream(0, side.cuda_stream, "reduction_stream")
        x = torch.zeros(1024, device="cuda")
        begin = x.data_ptr()
        hooks.name_region(begin, begin + 2048, "first half", hooks.current_op())
        torch.cuda.synchronize()
        hooks.set_step(3)
        with torch.cuda.stream(side):
            x.add_(1)
        y = x * 2
        hooks.name_region(begin + 2048, begin + 4096, "second half", hooks.current_op())
        z = torch.zeros(256, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            z.add_(1)
        z.add_(1)
        hooks.name_region(z.data_ptr(), z.data_ptr() + 1024, "z", hooks.current_op() + 1)
        """,
    )

    assert [f["code"] for f in outcome.findings] == ["SG001", "SG003"]
    halves, late = outcome.findings
    assert halves["step"] == 3
    assert halves["first"]["stream"]["name"] == "reduction_stream"
    first_half = {"name": "first half", "begin": 0, "end": 2048}
    second_half = {"name": "second half", "begin": 0, "end": 2048}
    assert halves["overlap"]["names_first"] == [first_half, second_half]
    assert halves["overlap"]["names_second"] == [first_half, second_half]
    assert late["overlap"]["names_first"] == [{"name": "z", "begin": 0, "end": 1024}]


def test_name_of_a_freed_block_is_not_handed_on(tmp_path: Path) -> None:
    """A new block at the same bytes has no name; the finding about the old one keeps it."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(1024, device="cuda")
        begin = x.data_ptr()
        hooks.name_region(begin, begin + 4096, "weights", hooks.current_op())
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = x.sum()
        del x
        y = torch.empty(1024, device="cuda")
        y.fill_(7)
        """,
    )

    assert [f["code"] for f in outcome.findings] == ["SG004"]
    finding = outcome.findings[0]
    assert [n["name"] for n in finding["overlap"]["names_first"]] == ["weights"]
    assert finding["overlap"]["names_second"] == []


def test_watched_region_lists_who_touched_it_and_what_orders_them(tmp_path: Path) -> None:
    """A watched region yields writers, readers, and the edge between each pair, also when clean."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(1024, device="cuda")
        hooks.watch(x.data_ptr(), x.data_ptr() + 4096, "x")
        x.add_(1)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x[:256] * 2
        """,
    )

    assert_clean(outcome, ops_at_least=3)
    accesses = [(w["op"], w["access"], w["stream"], w["offset"]) for w in outcome.watched]
    assert accesses == [
        ("aten::add_", "write", "default stream (device 0)", [0, 4096]),
        ("aten::mul", "read", outcome.coverage["streams"][1]["name"], [0, 1024]),
    ]
    after = outcome.watched[1]["ordered_after"]
    assert [(a["op"], a["access"], a["edge"]["kind"]) for a in after] == [
        ("aten::add_", "write", "event_wait")
    ]


def test_watch_ends_when_its_block_is_freed(tmp_path: Path) -> None:
    """Later tenants of the bytes are not listed, nor are they what a new watch is ordered after."""
    outcome = run(
        tmp_path,
        """
        def tenant():
            return torch.empty(1024, device="cuda")

        other, x = tenant(), tenant()
        hooks.watch(other.data_ptr(), other.data_ptr() + 4096, "other")
        address = x.data_ptr()
        hooks.watch(address, address + 4096, "x")
        x.fill_(1)
        del x
        y = tenant()
        assert y.data_ptr() == address
        y.mul_(2)
        del y
        z = tenant()
        assert z.data_ptr() == address
        hooks.watch(address, address + 4096, "z")
        z.add_(1)
        """,
    )

    accesses = [(w["name"], w["op"], w["count"], w["ordered_after"]) for w in outcome.watched]
    assert accesses == [("x", "aten::fill_", 1, []), ("z", "aten::add_", 1, [])]
    assert_clean(outcome, ops_at_least=3)


def test_watch_outlives_the_free_of_another_block(tmp_path: Path) -> None:
    """Only the watched block's own free ends a watch."""
    outcome = run(
        tmp_path,
        """
        other, x = (torch.empty(1024, device="cuda") for _ in range(2))
        hooks.watch(x.data_ptr(), x.data_ptr() + 4096, "x")
        x.fill_(1)
        del other
        x.mul_(2)
        """,
    )

    accesses = [
        (w["name"], w["op"], [a["op"] for a in w["ordered_after"]]) for w in outcome.watched
    ]
    assert accesses == [("x", "aten::fill_", []), ("x", "aten::mul_", ["aten::fill_"])]
