//! A snapshot that several modules are tested with.

use placement::Snapshot;

/// Four nodes in two zones, with memory on units and licences on nodes; 16 actors, most with messages.
pub fn world(rng: &mut fastrand::Rng, objectives: &str) -> Snapshot {
    let list = |items: Vec<String>| items.join(",");
    let nodes =
        |node: u32| format!(r#"{{"id":"n{node}","zone":"z{}","provides":{{"licence":3}}}}"#, node / 2);
    let unit = |at: u32| {
        let (kind, node) = (["cpu", "cpu", "gpu"][at as usize % 3], at / 3);
        format!(
            r#"{{"id":"u{at}","kind":"{kind}","node":"n{node}","zone":"z{}","capacity":20,"provides":{{"memory":6}}}}"#,
            node / 2
        )
    };
    let mut actor = |id: u32| {
        let (cpu, gpu, memory) = (rng.u32(1..12), rng.u32(1..9), rng.u32(0..5));
        let licence = rng.u32(0..2);
        format!(
            r#"{{"id":"a{id}","group":"g{}","runsOn":{{"cpu":{cpu},"gpu":{{"work":{gpu},"nodeRequires":{{"licence":{licence}}}}}}},
            "requires":{{"memory":{memory}}}}}"#,
            id % 3
        )
    };
    let actors = list((0..16).map(&mut actor).collect());
    let mut pair = |rest: &str| {
        let (a, b) = (rng.u32(0..16), rng.u32(0..15));
        let b = if b >= a { b + 1 } else { b };
        rest.replace("$a", &format!("a{a}"))
            .replace("$b", &format!("a{b}"))
            .replace('#', &rng.u32(1..50).to_string())
    };
    let messages = list((0..30).map(|_| pair(r#"{"from":"$a","to":"$b","count":#}"#)).collect());
    let annoyance = list((0..8).map(|_| pair(r#"{"a":"$a","b":"$b","drag":#}"#)).collect());
    let apart = list((0..4).map(|_| pair(r#"{"type":"apart","on":"node","actors":["$a","$b"]}"#)).collect());
    let json = format!(
        r#"{{"version":1,"nodes":[{}],"units":[{}],"actors":[{actors}],"messages":[{messages}],
        "annoyance":[{annoyance}],
        "exchangeCost":{{"kinds":{{"cpu":{{"cpu":1,"gpu":5}}}},"otherKind":2,"otherNode":30,"otherZone":30}},
        "constraints":[{apart},{{"type":"together","on":"zone","actors":["a0","a1"]}},
        {{"type":"prefer","actor":"a2","unit":"u5","weight":7}}],
        "objectives":[{objectives}]}}"#,
        list((0..4).map(nodes).collect()),
        list((0..12).map(unit).collect())
    );
    Snapshot::read(&json).unwrap()
}
