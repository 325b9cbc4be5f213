"""Installing and undoing the hooks."""

from pathlib import Path

import pytest

from streamguard.errors import MissingBuildError
from streamguard.hooks.native import check_version
from tests.rules.expect import assert_clean
from tests.rules.programs import run


def test_hooks_built_for_another_torch_are_refused() -> None:
    """Layouts of torch's internals hold for one build: any difference is an error with the cure."""
    with pytest.raises(MissingBuildError) as raised:
        check_version(built_for="2.13.0+cu130", installed="2.14.1+cu130")

    assert raised.value.part == "streamguard._hooks"
    assert "2.13.0+cu130" in raised.value.reason
    assert "2.14.1+cu130" in raised.value.reason


def test_undo_stops_watching_and_a_second_session_starts_afresh(tmp_path: Path) -> None:
    """What ran unwatched between two sessions is part of no finding, and the second one watches."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(1024, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x.add_(1)
        from streamguard import _hooks
        _hooks.stop()
        x.mul_(2)
        torch.cuda.synchronize()
        seen = hooks.coverage()["ops"]
        undo = hooks.install(stacks="full", sink=announced.append)
        x.mul_(2)
        assert hooks.coverage()["ops"] == seen + 1
        """,
    )

    assert_clean(outcome, ops_at_least=3)


def test_a_gpu_trace_that_was_there_still_hears_everything(tmp_path: Path) -> None:
    """Callbacks of torch.cuda._gpu_trace registered before the hooks are forwarded to."""
    outcome = run(
        tmp_path,
        """
        import torch.cuda._gpu_trace as gpu_trace
        heard = []
        from streamguard import _hooks
        _hooks.stop()
        gpu_trace.register_callback_for_event_record(lambda event, stream: heard.append("record"))
        gpu_trace.register_callback_for_event_wait(lambda event, stream: heard.append("wait"))
        torch._C._activate_gpu_trace()
        hooks.install(stacks="full", sink=announced.append)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        assert heard == ["record", "wait"], heard
        _hooks.stop()
        side.wait_stream(torch.cuda.current_stream())
        assert heard == ["record", "wait"] * 2, heard
        hooks.install(stacks="full", sink=announced.append)
        side.wait_stream(torch.cuda.current_stream())
        assert heard == ["record", "wait"] * 3, heard
        torch.zeros(4, device="cuda")
        """,
    )

    assert_clean(outcome)
    assert (outcome.coverage["records"], outcome.coverage["waits"]) == (2, 2)


def test_a_sink_that_raises_does_not_disturb_the_op(tmp_path: Path) -> None:
    """The op that revealed a finding returns its result whatever the sink does."""
    outcome = run(
        tmp_path,
        """
        import sys
        from streamguard import _hooks
        unraisable = []
        sys.unraisablehook = lambda info: unraisable.append(type(info.exc_value).__name__)
        def sink(finding_id):
            announced.append(finding_id)
            raise ValueError(finding_id)
        hooks.install(stacks="full", sink=sink)
        side = torch.cuda.Stream()
        x = torch.zeros(1024, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x.add_(1)
        y = x * 2
        assert y.shape == (1024,)
        assert unraisable == ["ValueError"], unraisable
        """,
    )

    assert outcome.announced == [0]


def test_native_kernels_registered_later_are_counted(tmp_path: Path) -> None:
    """C++ kernels registered after the hooks are not observed: coverage counts and names them."""
    outcome = run(
        tmp_path,
        """
        library = torch._C._dispatch_library("DEF", "late", "")
        library.def_("same(Tensor x) -> Tensor")
        library.impl_t_t("same", "CUDA")
        for i in range(9):
            library.def_(f"same{i}(Tensor x) -> Tensor")
            library.impl_t_t(f"same{i}", "CUDA")
        assert hooks.coverage()["unregistered_kernels"] == 10
        names = ["late::same", *(f"late::same{i}" for i in range(7))]
        assert hooks.coverage()["unregistered_kernel_names"] == names
        torch.zeros(4, device="cuda")
        """,
    )

    assert_clean(outcome)


def test_python_kernels_registered_later_are_seen_through_their_ops(tmp_path: Path) -> None:
    """A kernel written in Python launches through operators, and those are observed."""
    outcome = run(
        tmp_path,
        """
        library = torch.library.Library("late", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CUDA")
        x = torch.zeros(4, device="cuda")
        before = hooks.coverage()["ops"]
        torch.ops.late.twice(x)
        assert hooks.coverage()["ops"] == before + 1
        assert hooks.coverage()["unregistered_kernels"] == 0
        """,
    )

    assert_clean(outcome)


def test_failing_op_leaves_the_hooks_working(tmp_path: Path) -> None:
    """An op that raises is no access; the next one is observed again."""
    outcome = run(
        tmp_path,
        """
        x = torch.zeros(4, 4, device="cuda")
        before = hooks.coverage()["ops"]
        try:
            torch.linalg.cholesky(torch.zeros(3, 4, device="cuda"))
        except RuntimeError:
            pass
        try:
            torch.mm(x, torch.zeros(3, 3, device="cuda"))
        except RuntimeError:
            pass
        during = hooks.coverage()["ops"]
        x.add_(1)
        assert hooks.coverage()["ops"] == during + 1
        """,
    )

    assert_clean(outcome)


def test_forked_child_does_not_watch(tmp_path: Path) -> None:
    """DataLoader workers inherit the hooks, have no CUDA, and must never wait for our locks."""
    outcome = run(
        tmp_path,
        """
        pinned = torch.zeros(64).pin_memory()
        pinned.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        data = torch.utils.data.TensorDataset(torch.randn(32, 4))
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=True)
        total = sum(batch[0].to("cuda", non_blocking=True).sum() for batch in loader)
        """,
    )

    assert_clean(outcome, ops_at_least=16)
