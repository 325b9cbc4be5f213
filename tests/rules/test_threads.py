"""Host threads: no op is lost, none is accused for being issued from another thread."""

from pathlib import Path

from tests.rules.expect import assert_clean
from tests.rules.programs import run

# Each thread orders its own work on streams that all threads use, and passes its result through a
# stream that only it uses.
EIGHT_THREADS = """
    import threading
    THREADS, STEPS = 8, 50
    shared = [torch.cuda.Stream() for _ in range(4)]
    own = [torch.cuda.Stream() for _ in range(THREADS)]
    x = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    before = hooks.coverage()["ops"]
    errors = []

    def work(k):
        main = torch.cuda.current_stream()
        mine = torch.zeros(1024, device="cuda")
        for step in range(STEPS):
            stream = shared[(k + step) % len(shared)]
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                mine.add_(x + 1)
            main.wait_stream(stream)
            own[k].wait_stream(main)
            with torch.cuda.stream(own[k]):
                mine.add_(1)
            {order}
            mine.mul_(2)
            main.wait_stream(own[k])

    def guarded(k):
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert hooks.coverage()["ops"] - before == THREADS * (1 + 4 * STEPS)
"""


def test_eight_threads_on_shared_streams_are_clean(tmp_path: Path) -> None:
    """Every op of every thread is seen, and each thread's own waits order them."""
    assert_clean(run(tmp_path, EIGHT_THREADS.format(order="main.wait_stream(own[k])")))


def test_a_wait_that_each_of_eight_threads_lacks_is_found_in_each(tmp_path: Path) -> None:
    """No other thread's waits concern the streams that one thread alone uses."""
    outcome = run(tmp_path, EIGHT_THREADS.format(order="pass"))

    found = [
        (f["code"], f["first"]["op"], f["second"]["op"], outcome.line_of(f["second"]), f["count"])
        for f in outcome.findings
    ]
    assert found == [("SG003", "aten::add_", "aten::mul_", "mine.mul_(2)", 50)] * 8
    assert len({f["first"]["stream"]["handle"] for f in outcome.findings}) == 8
    assert len({f["second"]["stream"]["handle"] for f in outcome.findings}) == 1


TWO_DEVICES = """
    import torch.utils.data as data
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 32).to(["cuda:0", "cuda:1"][k % 2]) for k in range(4)]
    parameters = [p for layer in layers for p in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.1)
    examples = data.TensorDataset(torch.randn(32, 32), torch.randn(32, 32))
    side = torch.cuda.Stream("cuda:1")
    for inputs, targets in data.DataLoader(examples, 8, num_workers=2, pin_memory=True):
        hidden = inputs.to("cuda:0", non_blocking=True)
        targets = targets.to("cuda:1", non_blocking=True)
        for layer in layers:
            hidden = layer(hidden.to(layer.weight.device)).relu()
        loss = (hidden - targets).square().mean()
        loss.backward()
        with torch.cuda.device(1), torch.cuda.stream(side):
            {order}
            norm = layers[1].weight.grad.norm()
        torch.cuda.current_stream("cuda:1").wait_stream(side)
        optimizer.step()
        optimizer.zero_grad()
"""


def test_two_autograd_threads_and_loader_workers_are_clean(tmp_path: Path) -> None:
    """Each device has its own autograd thread; batches come from two processes and one thread."""
    order = 'side.wait_stream(torch.cuda.default_stream("cuda:1"))'
    outcome = run(tmp_path, TWO_DEVICES.format(order=order), devices=2)

    assert_clean(outcome, ops_at_least=4 * 20)
    assert all(stream["ops"] > 0 for stream in outcome.coverage["streams"])


def test_a_gradient_read_beside_its_autograd_thread_is_found(tmp_path: Path) -> None:
    """The second device's thread wrote the gradient; the op has no line but its forward's."""
    outcome = run(tmp_path, TWO_DEVICES.format(order="pass"), devices=2)

    assert [f["code"] for f in outcome.findings] == ["SG001"]
    finding = outcome.findings[0]
    assert finding["count"] == 4
    assert outcome.line_of(finding["second"]) == "norm = layers[1].weight.grad.norm()"
    assert finding["first"]["stream"]["name"] == "default stream (device 1)"
