//! CEDR's format: lossless round trips, and error messages.

use serde_json::{Value, json};
use taskgraph::{Graph, files, generate};

/// Two tasks, one variable of each sort, and unknown fields.
fn sample() -> Value {
    json!({
        "AppName": "sample", "SharedObject": "sample.so", "Remark": {"by": ["us", null]},
        "Variables": {
            "n": {"bytes": 4, "is_ptr": false, "ptr_alloc_bytes": 0, "val": [0, 1, 0, 0]},
            "buffer": {"bytes": 8, "is_ptr": true, "ptr_alloc_bytes": 2048, "val": []}
        },
        "DAG": {
            "B": {
                "arguments": ["n", "buffer"], "task_id": 10,
                "predecessors": [], "successors": [{"name": "A", "edgecost": 1.5}],
                "platforms": [{"name": "fft", "nodecost": 1.25, "runfunc": "b_fft", "shared_object": "fft.so"}, {"name": "cpu", "nodecost": 10, "runfunc": "b"}]
            },
            "A": {
                "arguments": [], "task_id": 20, "extra": true,
                "predecessors": [{"name": "B", "edgecost": 1.5}], "successors": [],
                "platforms": [{"name": "cpu", "nodecost": 10.0, "runfunc": "a"}]
            }
        }
    })
}

fn read(value: &Value) -> Result<Graph, String> {
    files::cedr::read(&value.to_string()).map(|(graph, _)| graph).map_err(|error| error.to_string())
}

#[test]
fn cedr_files_round_trip() {
    let mut values = vec![sample()];
    for name in generate::cedr::APPLICATIONS {
        let graph = generate::cedr::application(name).unwrap();
        values.push(serde_json::from_str(&files::cedr::write(&graph).unwrap()).unwrap());
    }
    for value in values {
        let graph = read(&value).unwrap();
        let direct: Value = serde_json::from_str(&files::cedr::write(&graph).unwrap()).unwrap();
        assert_eq!(direct, value);
        let through_yaml = files::graph::read(&files::graph::write(&graph)).unwrap();
        assert_eq!(through_yaml, graph);
        let back: Value = serde_json::from_str(&files::cedr::write(&through_yaml).unwrap()).unwrap();
        assert_eq!(back, value);
    }
}

#[test]
fn tasks_are_ordered_by_id_if_all_have_one_else_by_name() {
    let order =
        |value: &Value| read(value).unwrap().tasks().iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    let mut value = sample();
    assert_eq!(order(&value), ["B", "A"]);
    value["DAG"]["A"].as_object_mut().unwrap().remove("task_id");
    assert_eq!(order(&value), ["A", "B"]);
}

#[test]
fn unknown_fields_are_named_in_warnings() {
    let (_, warnings) = files::cedr::read(&sample().to_string()).unwrap();
    let places: Vec<&str> = warnings.iter().map(|warning| warning.split(':').next().unwrap()).collect();
    assert_eq!(places, ["Remark", "DAG.A.extra"]);
}

#[test]
fn invalid_files_are_rejected_with_the_place() {
    let cases = [
        ("/DAG/B/successors/0/name", json!("C"), "DAG.B.successors[0]: `C` is not a task"),
        ("/DAG/B/successors", json!([]), "DAG.A.predecessors: `B` does not have `A` among its successors"),
        (
            "/DAG/A/predecessors",
            json!([]),
            "DAG.B.successors[0]: `A` does not have `B` among its predecessors",
        ),
        ("/DAG/B/arguments/0", json!("m"), "DAG.B.arguments[0]: `m` is not a variable"),
        ("/DAG/B/platforms/0/name", json!("F_F"), "DAG.B.platforms[0].name: `F_F` is not a kind"),
        ("/DAG/B/platforms/0/name", json!("cpu"), "DAG.B.platforms[1]: cpu occurs twice"),
        ("/DAG/B/platforms/0/nodecost", json!(-1), "DAG.B.platforms[0].nodecost: -1 is out of range"),
        ("/DAG/B/platforms/0/nodecost", json!("x"), "DAG.B.platforms[0].nodecost: invalid type"),
        ("/DAG/B/platforms", json!([]), "DAG.B.platforms: no implementation"),
        ("/DAG/B/task_id", json!(20), "task_id: 20 is also that of"),
        ("/Variables/n/val", json!([1]), "Variables.n.val: 1 initial bytes for 4 bytes"),
        ("/Variables/n/val/0", json!(256), "Variables.n.val[0]: invalid value"),
        ("/Variables/buffer/bytes", json!(4), "Variables.buffer.bytes: a pointer of 4 bytes"),
        ("/DAG", json!({}), "tasks: empty"),
        ("/DAG", json!(3), "DAG: invalid type"),
    ];
    for (place, put, expected) in cases {
        let mut value = sample();
        *value.pointer_mut(place).unwrap() = put;
        let error = read(&value).unwrap_err();
        assert!(error.contains(expected), "{place}\n{error}");
    }
    let mut cyclic = sample();
    cyclic["DAG"]["A"]["successors"] = json!([{"name": "B"}]);
    cyclic["DAG"]["B"]["predecessors"] = json!([{"name": "A"}]);
    assert!(read(&cyclic).unwrap_err().contains("there is a cycle: A -> B -> A"), "{:?}", read(&cyclic));
    let text = sample().to_string();
    let error = files::cedr::read(&text[..text.len() / 2]).unwrap_err().to_string();
    assert!(error.contains("the text ends too early"), "{error}");
    let mut streaming = sample();
    streaming["Stream_enable"] = json!("triple buffer");
    assert!(read(&streaming).unwrap_err().contains("Stream_enable: `triple buffer` is unknown"));
}

#[test]
fn generated_applications_match_the_papers_numbers() {
    let sizes: Vec<(usize, usize)> = generate::cedr::APPLICATIONS
        .iter()
        .map(|name| generate::cedr::application(name).unwrap())
        .map(|graph| (graph.tasks().len(), graph.edges().len()))
        .collect();
    assert_eq!(sizes, [(7, 7), (11, 15), (93, 92), (1027, 1408)]);
    for pair in [generate::cedr::Pair::low(), generate::cedr::Pair::high()] {
        assert_eq!(pair.rates.len(), 29);
    }
    assert_eq!(generate::cedr::Pair::high().period_ns(2000), 506_000);
}
