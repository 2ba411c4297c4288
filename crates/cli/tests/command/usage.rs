//! Help, bad usage, and unreachable clusters.

use std::process::Stdio;

use crate::{File, cairn, command};

#[test]
fn strategies_are_listed() {
    let ran = cairn(&["plan", "--strategy", "list"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 0
    asp          an answer at once, then better ones by native search; Answer Set Programming proves small ones optimal
    greedy       keeps what runs, places the rest where it costs least, then makes every improving move
    local        starts from what runs and a quick placement of the rest, then anneals by moves and swaps
    clingo       Answer Set Programming alone, from what runs; for comparison and small snapshots
    round-robin  cycles through the units regardless of cost; for comparison (not for policies)
    random       places each actor on a random unit, by the seed; for comparison (not for policies)
    exhaustive   enumerates all assignments, ten million at most; a reference for other strategies (not for policies)
    ");
}

#[test]
fn help_has_groups_and_examples() {
    let help = cairn(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    assert!(help.out.contains("Examples:"), "{}", help.out);
    let plan = cairn(&["plan", "--help"]);
    insta::assert_snapshot!(plan.all());
    assert_eq!(cairn(&["--version"]).code, Some(0));
}

#[test]
fn bad_usage_exits_with_1() {
    let rows: [&[&str]; 14] = [
        &[],
        &["plann"],
        &["plan", "--snapshott", "x"],
        &["plan", "--snapshot", "x", "-f", "y"],
        &["plan", "--snapshot", "x", "--application", "a/b"],
        &["plan", "--now", "2026-01-01T00:00:00Z"],
        &["plan", "-f", "x", "--now", "yesterday"],
        &["plan", "--application", "surveillance"],
        &["plan", "--snapshot", "x", "--budget", "fast"],
        &["plan", "--snapshot", "x", "--budget", "0s"],
        &["plan", "--snapshot", "x", "--objectives", "overload,speed"],
        &["topology"],
        &["explain", "pod", "x"],
        &["explain", "actorapp", "a/b", "-n", "c"],
    ];
    let first = |arguments: &&[&str]| {
        let ran = cairn(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}");
        // The usage line and the hint to --help follow.
        let message: Vec<&str> = ran.err.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        format!("{}\n  {}", arguments.join(" "), message.join(" "))
    };
    insta::assert_snapshot!(rows.iter().map(first).collect::<Vec<_>>().join("\n"));
}

#[test]
fn arguments_are_validated_before_reading_files() {
    let error = |arguments: &[&str]| {
        let ran = cairn(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
        ran.err
    };
    let strategy = error(&["plan", "--snapshot", "/does/not/exist", "--strategy", "magic"]);
    assert_eq!(
        strategy,
        "error: --strategy: there is no strategy `magic`; use one of asp, greedy, local, clingo, round-robin, random, exhaustive\n"
    );
    let twice =
        error(&["plan", "--snapshot", "/does/not/exist", "--objectives", "overload,annoyance+overload"]);
    assert_eq!(twice, "error: --objectives: `overload` is named twice; name it once\n");
}

#[test]
fn invalid_input_is_explained_without_words_of_the_parser() {
    let empty = File::new("empty.json", "\n");
    let comments = File::new("rules.lp", "% none yet\n");
    let long = File::new("long.lp", &format!("a :- {}(.", "x".repeat(400)));
    let snapshot = File::new("s.json", &format!("{{\"units\": \"{}\"}}", "x".repeat(400)));
    for (arguments, expected) in [
        (&["plan", "--snapshot", empty.path()][..], ": is empty; a snapshot is what "),
        (&["check-policy", comments.path()], ": is empty; a policy is "),
        (&["plan", "--snapshot", "x", "--effort", "abc"], "must be a whole number from 0 to "),
        (&["plan", "-f", "x", "--now", "yesterday"], "must be a time, such as 2026-01-31T12:00:00Z"),
        (&["check-policy", long.path()], "xxxxxx"),
        (&["plan", "--snapshot", snapshot.path()], "xxx…"),
    ] {
        let ran = cairn(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        assert!(ran.err.contains(expected), "{}", ran.err);
        assert!(!ran.err.contains(&"x".repeat(101)), "{}", ran.err);
    }
}

#[test]
fn missing_and_unreachable_clusters_are_reported() {
    let ran = cairn(&["plan"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        ran.err.starts_with(
            "error: cannot read the kubeconfig (set --kubeconfig; plan, explain, status and topology also read files with -f): "
        ),
        "{}",
        ran.err
    );
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    // A free port without a listener.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n\
         clusters: [{{name: here, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n"
    );
    let file = File::new("config", &kubeconfig);
    let ran = cairn(&["topology", "node-0", "--kubeconfig", file.path()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let expected = format!(
        "error: cannot list nodetopologies: the server http://127.0.0.1:{port}/ of context here cannot be reached; check its \
         address and the network, or set --kubeconfig or --context: Connection refused (os error 111)\n"
    );
    assert_eq!(ran.err, expected);
    let ran = cairn(&["topology", "node-0", "--kubeconfig", file.path(), "--context", "there"]);
    assert!(ran.err.contains("there"), "{}", ran.err);
}

#[test]
fn closed_output_is_not_an_error() {
    let arguments = ["plan", "--snapshot", "examples/instances/P-8x4-s1.json", "--strategy", "greedy"];
    let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
