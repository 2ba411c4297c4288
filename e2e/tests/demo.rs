//! The output of `make demo`.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use e2e::{keeper, product};

#[test]
fn the_demo_reaches_the_optimum_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(keeper::executable().unwrap());
    demo.arg("demo")
        .env_remove("DEMO_HOLD")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .process_group(0);
    let output = demo.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in ["node cairn-gpu is gone", "the proven optimum is [0, 92160, 20]", "nothing is left running"]
    {
        assert!(said.contains(part), "it does not say {part:?}:\n{said}");
    }
    let readme = fs::read_to_string(product::tree("README.md")).unwrap();
    let shown = between(&readme, "<!-- demo output: begin -->\n```text\n", "```\n<!-- demo output: end -->");
    if let Err(missing) = is_excerpt(shown, &said) {
        panic!("README.md shows what the demo does not say, {missing:?}; it says:\n{said}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "its state folder is removed");
    assert_eq!(processes_that_name(folder.path().to_str().unwrap()), Vec::<String>::new());
}

#[test]
fn the_readme_shows_output_of_the_demo_of_the_loop() {
    let read = |name: &str| fs::read_to_string(product::tree(name)).unwrap();
    let (readme, output) = (read("README.md"), read("docs/results/demo-loop.txt"));
    let begin = "<!-- output of the demo of the loop: begin -->\n```text\n";
    let shown = between(&readme, begin, "```\n<!-- output of the demo of the loop: end -->");
    if let Err(missing) = is_excerpt(shown, &output) {
        panic!("README.md shows {missing:?}, which is not in docs/results/demo-loop.txt");
    }
}

/// The command lines of all processes that contain this text.
fn processes_that_name(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
    let lines = processes.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

/// The text between two marks.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, after) = text.split_once(begin).unwrap_or_else(|| panic!("there is no {begin:?}"));
    after.split_once(end).unwrap_or_else(|| panic!("there is no {end:?} after it")).0
}

/// Checks that `shown` is part of the output `said`, ignoring times; lines may be omitted only at a line `…`.
///
/// The error is the first line of `shown` that is not in the output.
fn is_excerpt(shown: &str, said: &str) -> Result<(), String> {
    let said: Vec<String> = said.lines().map(without_time).collect();
    let shown: Vec<String> = shown.lines().map(without_time).collect();
    let mut rest = said.as_slice();
    for part in shown.split(|line| line.trim() == "…") {
        // empty lines around an omission belong to it
        let first = part.iter().position(|line| !line.is_empty()).unwrap_or(part.len());
        let last = part.iter().rposition(|line| !line.is_empty()).map_or(first, |last| last + 1);
        let part = &part[first..last];
        // the longest match of a prefix identifies the missing line best
        let agrees =
            |start: usize| rest[start..].iter().zip(part).take_while(|(said, shown)| said == shown).count();
        let longest = (0..=rest.len()).max_by_key(|&start| (agrees(start), rest.len() - start)).unwrap_or(0);
        match part.get(agrees(longest)) {
            Some(missing) => return Err(missing.clone()),
            None => rest = &rest[longest + part.len()..],
        }
    }
    Ok(())
}

/// A line without leading seconds and trailing spaces.
fn without_time(line: &str) -> String {
    let line = line.trim_end();
    match line.trim_start().split_once(" s  ") {
        Some((time, words)) if time.parse::<f64>().is_ok() => format!("(time)  {words}"),
        _ => line.to_owned(),
    }
}

#[test]
fn excerpts_may_omit_but_not_change_lines() {
    let said = "  1.0 s  one\n\n    two  \n    three\n  2.5 s  four\n";
    assert_eq!(is_excerpt(" 9.9 s  one\n\n    two\n", said), Ok(()));
    assert_eq!(is_excerpt(" 9.9 s  one\n    …\n 3.0 s  four\n", said), Ok(()));
    assert_eq!(is_excerpt(" 9.9 s  one\n 3.0 s  four\n", said), Err("(time)  four".to_owned()));
    assert_eq!(is_excerpt("    three\n    …\n    two\n", said), Err("    two".to_owned()));
    assert_eq!(is_excerpt("    tree\n", said), Err("    tree".to_owned()));
}
