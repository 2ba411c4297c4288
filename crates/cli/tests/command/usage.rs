//! Help, bad usage, and a cluster that is not there.

use std::process::Stdio;

use crate::{File, cairn, command};

#[test]
fn strategies_are_listed_without_planning_anything() {
    let ran = cairn(&["plan", "--strategy", "list"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 0
    asp          an answer at once, then better ones by native search; Answer Set Programming proves what is small
    greedy       keeps what runs, places the rest where it costs least, then takes every single step that pays
    local        starts from what runs and a quick placement of the rest, then anneals by moves and swaps
    clingo       Answer Set Programming alone, from what runs: for comparison, and for small worlds
    round-robin  goes round the units and looks at no cost; for comparison (not for policies)
    random       draws a unit for each actor, by the seed; for comparison (not for policies)
    exhaustive   looks at every assignment, ten million at most; to check others by (not for policies)
    ");
}

#[test]
fn help_is_in_groups_and_has_examples() {
    let help = cairn(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    assert!(help.out.contains("Examples:"), "{}", help.out);
    let plan = cairn(&["plan", "--help"]);
    insta::assert_snapshot!(plan.all());
    assert_eq!(cairn(&["--version"]).code, Some(0));
}

#[test]
fn bad_usage_ends_with_1_and_says_what_to_do() {
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
        // What follows is clap's usage line and its pointer to --help.
        let told: Vec<&str> = ran.err.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        format!("{}\n  {}", arguments.join(" "), told.join(" "))
    };
    insta::assert_snapshot!(rows.iter().map(first).collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_read() {
    let says = |arguments: &[&str]| {
        let ran = cairn(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
        ran.err
    };
    let strategy = says(&["plan", "--snapshot", "/does/not/exist", "--strategy", "magic"]);
    assert_eq!(
        strategy,
        "error: --strategy: there is no strategy `magic`; use one of asp, greedy, local, clingo, round-robin, random, exhaustive\n"
    );
    let twice =
        says(&["plan", "--snapshot", "/does/not/exist", "--objectives", "overload,annoyance+overload"]);
    assert_eq!(twice, "error: --objectives: `overload` is named twice; name it once\n");
}

#[test]
fn without_a_cluster_it_says_what_else_could_be_given() {
    let ran = cairn(&["plan"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        ran.err.starts_with(
            "error: cannot read the kubeconfig (give one with --kubeconfig, or files with -f): "
        ),
        "{}",
        ran.err
    );
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    // A port that nobody listens on: bound for a moment, then free.
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
    assert!(ran.err.starts_with("error: cannot list nodetopologies: "), "{}", ran.err);
    let ran = cairn(&["topology", "node-0", "--kubeconfig", file.path(), "--context", "there"]);
    assert!(ran.err.contains("there"), "{}", ran.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let arguments = ["plan", "--snapshot", "examples/instances/P-8x4-s1.json", "--strategy", "greedy"];
    let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
