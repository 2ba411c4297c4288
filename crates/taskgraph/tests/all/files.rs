//! YAML files: round trips and error messages.

use taskgraph::{Cost, Kind, Model, files};

const MODELS: [&str; 3] = [
    "{version: 1, model: work, tasks: [{id: t0, work: 4096, vector: 1000}, {id: t1, work: 1}], edges: [{from: t0, to: t1, bytes: 3000}], variables: [{name: u, bytes: 4096, writers: [t0], readers: [t1]}]}",
    "{version: 1, model: parallel, tasks: [{id: s0, a: 9, b: 24, c: 49, h: {p0: 0.4897, p1: 0.6815}}, {id: s1, a: 1, b: 1, c: 1, h: {p0: 1}}], edges: [{from: s0, to: s1, fixed: 5, variable: 3}], parameters: {alpha: {min: 1000, max: 5000, intervals: 4}}}",
    "{version: 1, model: measured, name: x, frames: 4, streaming: double buffer, tasks: [{id: A, on: {cpu: {expected: 10, actual: 12, function: a}, fft: {expected: 5}}, arguments: [v]}], variables: [{name: v, bytes: 8, pointer: true, allocated: 64}]}",
];

#[test]
fn graphs_round_trip() {
    for text in MODELS {
        let graph = files::graph::read(text).unwrap();
        assert_eq!(files::graph::read(&files::graph::write(&graph)).unwrap(), graph, "{text}");
    }
    let graph = files::graph::read(MODELS[2]).unwrap();
    assert_eq!(graph.model(), Model::Measured);
    let Cost::Measured(on) = &graph.tasks()[0].cost else { panic!("measured") };
    assert_eq!((on[&Kind::Cpu].actual_ns(), on[&Kind::Fft].actual_ns()), (12_000, 5_000));
}

const PLATFORMS: [&str; 4] = [
    "{pes: [{kind: cpu, count: 3, work: 1048576, vector: 32}, {kind: gpu}], links: {bandwidth: 1e9}}",
    "{pes: [{kind: gpu}, {kind: cpu}], links: [{a: cpu-0, b: gpu-0, bandwidth: 4e9}], transfer: {gpu: {fixedNanoseconds: 20000, nanosecondsPerKiB: 90}}, costs: zcu102}",
    "{pes: [{kind: p0, count: 2}, {kind: p1}], communication: [{a: p1, b: p0, startup: 9.04, perUnit: 3.72}]}",
    "{pes: [{kind: cpu}], costs: {assign: 1, look: 2, hostCores: shared}}",
];

#[test]
fn platforms_round_trip() {
    for text in PLATFORMS {
        let platform = files::platform::read(text).unwrap();
        assert_eq!(files::platform::read(&files::platform::write(&platform)).unwrap(), platform, "{text}");
    }
    let mixed =
        "{pes: [{kind: z}, {kind: gpu}, {kind: cpu, count: 2}, {kind: a}, {kind: mmult}, {kind: fft}]}";
    let names: Vec<String> =
        files::platform::read(mixed).unwrap().pes().iter().map(|pe| pe.name.clone()).collect();
    assert_eq!(names, ["Core 1", "Core 2", "FFT 1", "MMULT 1", "GPU 1", "a 1", "z 1"]);
}

#[test]
fn invalid_files_are_rejected_with_the_place() {
    let cases = [
        ("version: 2\nmodel: work\ntasks: []", "version: 2 is unknown"),
        ("version: 1\nmodel: other\ntasks: []", "model: `other` is unknown"),
        ("version: 1\nmodel: work\ntasks: []", "tasks: empty"),
        ("version: 1\nmodel: work\ntasks: [{id: a, wrok: 1}]", "tasks[0].wrok"),
        ("version: 1\nmodel: work\ntasks: [{id: a, work: -1}]", "tasks[0].work: -1 is out of range"),
        ("version: 1\nmodel: work\ntasks: [{id: a, work: .nan}]", "tasks[0].work: NaN is out of range"),
        ("version: 1\nmodel: work\ntasks: [{id: a, on: {}}]", "tasks[0].on: belongs to the model measured"),
        ("version: 1\nmodel: measured\ntasks: [{id: a, on: {}}]", "tasks[0].on: no implementation"),
        (
            "version: 1\nmodel: measured\ntasks: [{id: a, on: {C_U: {expected: 1}}}]",
            "tasks[0].on.C_U: `C_U` is not a kind",
        ),
        (
            "version: 1\nmodel: work\ntasks: [{id: a, work: 1}, {id: a, work: 1}]",
            "tasks[1].id: `a` is also the name of tasks[0]",
        ),
        (
            "version: 1\nmodel: work\ntasks: [{id: a, work: 1}]\nedges: [{from: a, to: b}]",
            "edges[0].to: `b` is not a task",
        ),
        (
            "version: 1\nmodel: work\ntasks: [{id: a, work: 1}, {id: b, work: 1}, {id: c, work: 1}]\nedges: [{from: a, to: b}, {from: b, to: c}, {from: c, to: b}]",
            "there is a cycle: ",
        ),
        (
            "version: 1\nmodel: parallel\ntasks: [{id: a, a: 1, b: 1, c: 1, h: {p: 1}}]\nparameters: {mu: {min: 2, max: 2, intervals: 4}}",
            "parameters.mu: min 2 is not below max 2",
        ),
        (
            "version: 1\nmodel: measured\ntasks: [{id: a, on: {cpu: {expected: -1}}}]",
            "tasks[0].on.cpu.expected: -1 is out of range",
        ),
        (
            "version: 1\nmodel: measured\ntasks: [{id: a, on: {cpu: {expected: 1}}, arguments: [v]}]",
            "tasks[0].arguments[0]: `v` is not a variable",
        ),
        (
            "version: 1\nmodel: work\ntasks: [{id: a, work: 1}]\nvariables: [{name: v, bytes: 1, writers: [b]}]",
            "variables[0].writers[0]: `b` is not a task",
        ),
        (
            "version: 1\nmodel: work\ntasks: [{id: a, work: 1}, {id: b, work: 1}]\nedges: [{from: a, to: b, bytes: .nan}]",
            "edges[0].bytes: NaN is out of range",
        ),
        (
            "version: 1\nmodel: parallel\ntasks: [{id: a, a: -1, b: 1, c: 1, h: {p: 1}}]",
            "tasks[0].a: -1 is out of range",
        ),
    ];
    for (text, expected) in cases {
        let error = files::graph::read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
    let cases = [
        ("pes: [{kind: cpu, count: 0}]", "pes: 0 processing elements"),
        ("pes: [{kind: cpu}]\nlinks: {bandwidth: 0}", "links.bandwidth: 0 is out of range"),
        (
            "pes: [{kind: cpu, count: 2}]\nlinks: [{a: cpu-0, b: cpu-1, bandwidth: 0}]",
            "links[0].bandwidth: 0 is out of range",
        ),
        ("pes: [{kind: cpu}]\nlinks: [{a: cpu-0, b: gpu-0, bandwidth: 1}]", "links[0].b: `gpu-0` is no"),
        ("pes: [{kind: cpu}]\ntransfer: {gpu: {}}", "transfer.gpu: `pes` has no gpu"),
        ("pes: [{kind: cpu}]\ncosts: fast", "costs: `fast` is unknown"),
        ("pes: [{kind: cpu, cuont: 2}]", "pes[0]"),
    ];
    for (text, expected) in cases {
        let error = files::platform::read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}
