"""Functions timed in turn, each by a CUDA graph of some calls."""
import torch


def graph_of(function, calls_for):
    """A graph of calls_for(milliseconds of one) calls, and their number."""
    function()
    torch.cuda.synchronize()
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a.record()
    function()
    b.record()
    b.synchronize()
    calls = calls_for(a.elapsed_time(b))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(calls):
            function()
    graph.replay()
    return graph, calls


def timed(functions, rounds, calls_for):
    """Microseconds of a call of each function, by name: the median of the rounds, in which each is replayed once."""
    graphs = {name: (*graph_of(f, calls_for), []) for name, f in functions.items()}
    for _ in range(rounds):
        for graph, calls, times in graphs.values():
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record()
            graph.replay()
            b.record()
            b.synchronize()
            times.append(1e3 * a.elapsed_time(b) / calls)
    return {name: sorted(times)[len(times) // 2] for name, (_, _, times) in graphs.items()}
