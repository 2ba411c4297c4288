//! Counting with a fake kernel, and with the real one.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
};

use tempfile::TempDir;

use super::*;

const CYCLES: usize = 0;

/// A fake kernel with one reading, or an error, for all groups of a set.
#[derive(Clone, Default)]
struct FakeKernel(Arc<Mutex<FakeCounters>>);

#[derive(Default)]
struct FakeCounters {
    software: GroupReading,
    hardware: Option<GroupReading>,
    fails: bool,
    open: usize,
}

struct FakeGroup(FakeKernel, Set);

impl FakeKernel {
    fn with_hardware() -> Self {
        let counters = FakeCounters {
            software: reading(0, 0, &vec![0; Set::Software.len()]),
            hardware: Some(reading(0, 0, &vec![0; Set::Hardware.len()])),
            ..FakeCounters::default()
        };
        Self(Arc::new(Mutex::new(counters)))
    }

    fn set_reading(&self, set: Set, reading: GroupReading) {
        let mut counters = self.0.lock().unwrap();
        match set {
            Set::Software => counters.software = reading,
            Set::Hardware => counters.hardware = Some(reading),
        }
    }

    fn fails(&self) {
        self.0.lock().unwrap().fails = true;
    }

    fn open_groups(&self) -> usize {
        self.0.lock().unwrap().open
    }
}

impl Layer for FakeKernel {
    fn open(&self, _: &File, _: usize, set: Set) -> io::Result<Box<dyn Group>> {
        let mut counters = self.0.lock().unwrap();
        if counters.fails {
            return Err(io::Error::from_raw_os_error(24));
        }
        if set == Set::Hardware && counters.hardware.is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        counters.open += 1;
        Ok(Box::new(FakeGroup(self.clone(), set)))
    }
}

impl Group for FakeGroup {
    fn read(&mut self) -> io::Result<GroupReading> {
        let counters = self.0.0.lock().unwrap();
        Ok(match self.1 {
            Set::Software => counters.software.clone(),
            Set::Hardware => counters.hardware.clone().unwrap(),
        })
    }
}

impl Drop for FakeGroup {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().open -= 1;
    }
}

fn reading(enabled_micros: u64, running_micros: u64, counts: &[u64]) -> GroupReading {
    GroupReading {
        enabled: Duration::from_micros(enabled_micros),
        running: Duration::from_micros(running_micros),
        counts: counts.to_vec(),
    }
}

/// A hierarchy with a cgroup for each of these uids.
fn hierarchy(uids: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("cgroup.controllers"), "cpu\n").unwrap();
    for uid in uids {
        let container = root.path().join("kubepods").join(format!("pod{uid}")).join("container");
        fs::create_dir_all(&container).unwrap();
        fs::write(container.join("cpuset.cpus.effective"), "0\n").unwrap();
    }
    root
}

fn pod(uid: &str) -> Pod {
    Pod { namespace: "vision".into(), name: format!("pod-{uid}"), uid: uid.into() }
}

fn text(perf: &mut Perf) -> String {
    let mut series = Series::default();
    perf.add(&mut series, "node-a");
    let text = Metrics::new().unwrap().render(&BTreeMap::new(), series).unwrap();
    let of_pods = |line: &&str| line.starts_with("cairn_pod") || line.starts_with("cairn_agent_perf");
    text.lines().filter(of_pods).collect::<Vec<_>>().join("\n")
}

#[test]
fn counts_are_scaled_by_what_was_added_and_the_first_interval_is_dropped() {
    let (kernel, metrics, root) = (FakeKernel::with_hardware(), Metrics::new().unwrap(), hierarchy(&["1"]));
    let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 1000, &metrics);
    assert_eq!(
        metrics.collectors_page(),
        "perf_hardware ok: this node has no pod of an actor to count\n\
         perf_software ok: this node has no pod of an actor to count\n"
    );
    assert_eq!(kernel.open_groups(), 0, "the probes are closed");
    perf.watch(&[pod("1")].into());
    assert_eq!(kernel.open_groups(), 2);

    // The first reading reports a quarter of an hour before the group was opened.
    kernel.set_reading(Set::Hardware, reading(835_000_000, 300, &[1_000_000, 7, 7]));
    kernel.set_reading(Set::Software, reading(835_000_000, 300, &[9_000_000, 7]));
    perf.read();
    assert_eq!(text(&mut perf), "cairn_agent_perf_open_fds 5", "the first interval is dropped");

    // The counters ran for half of the interval, so the counts are doubled.
    kernel.set_reading(Set::Hardware, reading(835_000_100, 350, &[1_001_000, 2_507, 28]));
    kernel.set_reading(Set::Software, reading(835_000_100, 400, &[9_050_000, 10]));
    perf.read();
    insta::assert_snapshot!(text(&mut perf));
}

#[test]
fn an_interval_longer_than_the_wall_clock_is_dropped_and_the_next_one_counts() {
    let before = reading(1_000, 1_000, &[100]);
    let wall = Duration::from_micros(500);
    let added = |now: &GroupReading| between(&before, now, wall).map(|interval| interval.counts[CYCLES]);
    assert_eq!(added(&reading(1_500, 1_500, &[150])), Some(50.0));
    assert_eq!(added(&reading(42_300_000, 1_500, &[150])), None, "42 s within half a millisecond");
    assert_eq!(added(&reading(900, 900, &[150])), None, "backwards");
    assert_eq!(added(&reading(1_500, 1_500, &[99])), None, "fewer than before");
    assert_eq!(added(&reading(1_500, 1_000, &[100])), None, "never scheduled");
    assert_eq!(added(&reading(1_000, 1_000, &[100])), Some(0.0), "nothing ran");
}

#[test]
fn a_set_without_free_counters_reports_that_it_counts_nothing() {
    let (kernel, metrics, root) = (FakeKernel::with_hardware(), Metrics::new().unwrap(), hierarchy(&["1"]));
    let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 1000, &metrics);
    perf.watch(&[pod("1")].into());
    let states = |perf: &Perf| perf.states().into_iter().map(|(_, (_, message))| message).collect::<Vec<_>>();
    for (hardware, expected) in [
        ((100, 100), COUNTING),
        ((200, 100), "counts nothing: other processes use all hardware counters"),
        // no process ran: the state is unchanged
        ((200, 100), "counts nothing: other processes use all hardware counters"),
        ((300, 101), COUNTING),
    ] {
        kernel.set_reading(Set::Hardware, reading(hardware.0, hardware.1, &[0, 0, 0]));
        perf.read();
        assert_eq!(states(&perf), [COUNTING, expected], "{hardware:?}");
    }
}

#[test]
fn unsupported_sets_report_the_reason() {
    let (kernel, metrics) = (FakeKernel::default(), Metrics::new().unwrap());
    let root = hierarchy(&["1"]);
    let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 1000, &metrics);
    let page = metrics.collectors_page();
    assert!(page.starts_with("perf_hardware absent: this machine has no such counters"), "{page}");
    perf.watch(&[pod("1")].into());
    assert_eq!(kernel.open_groups(), 1, "only software events");

    let v1 = tempfile::tempdir().unwrap();
    let mut perf = Perf::new(Box::new(kernel.clone()), v1.path(), 1000, &metrics);
    let page = metrics.collectors_page();
    assert!(
        page.contains("perf_software absent: ") && page.contains("is not a cgroup v2 hierarchy"),
        "{page}"
    );
    perf.watch(&[pod("1")].into());
    assert_eq!(text(&mut perf), "cairn_agent_perf_open_fds 0");

    let (state, message) = open_failure(&io::ErrorKind::PermissionDenied.into());
    assert!(state == CollectorState::Denied && message.contains("the capability PERFMON"), "{message}");
}

#[test]
fn pods_and_descriptors_are_limited_and_groups_of_removed_pods_are_closed() {
    let uids: Vec<_> = (0..70).map(|n| n.to_string()).collect();
    let root = hierarchy(&uids.iter().map(String::as_str).collect::<Vec<_>>());
    let (kernel, metrics) = (FakeKernel::with_hardware(), Metrics::new().unwrap());
    let pods: BTreeSet<_> = uids.iter().map(|uid| pod(uid)).collect();
    let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 1000, &metrics);
    perf.watch(&pods);
    assert_eq!((kernel.open_groups(), perf.descriptors(), perf.skipped), (128, 64 * 5, 6));

    let mut few = Perf::new(Box::new(kernel.clone()), root.path(), 23, &metrics);
    few.watch(&pods);
    assert_eq!((few.descriptors(), few.skipped), (20, 66), "four pods of one CPU");
    drop(few);
    let state = |perf: &Perf| perf.states().remove(0).1;
    let (ok, message) = state(&perf);
    assert!(
        ok == CollectorState::Ok && message.starts_with("counts for as many pods of actors as allowed: 64"),
        "{message}"
    );
    let mut none = Perf::new(Box::new(kernel.clone()), root.path(), 4, &metrics);
    none.watch(&pods);
    let (failed, message) = state(&none);
    assert!(
        failed == CollectorState::Error && message.starts_with("counts nothing: one pod needs more than 4"),
        "{message}"
    );

    fs::remove_dir_all(root.path().join("kubepods/pod0")).unwrap();
    perf.watch(&[pod("0"), pod("1")].into());
    assert_eq!(kernel.open_groups(), 2, "one cgroup was removed, and the other pods are not requested");
    perf.watch(&BTreeSet::new());
    assert_eq!(kernel.open_groups(), 0);
}

#[test]
fn a_cpu_that_comes_online_later_is_counted() {
    let (kernel, metrics, root) = (FakeKernel::with_hardware(), Metrics::new().unwrap(), hierarchy(&["1"]));
    let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 1000, &metrics);
    // the pod may use CPU 0
    perf.online = [8191].into();
    perf.watch(&[pod("1")].into());
    assert_eq!(kernel.open_groups(), 2);
}

#[test]
fn collectors_that_count_nothing_report_the_reason() {
    let (kernel, metrics, root) = (FakeKernel::with_hardware(), Metrics::new().unwrap(), hierarchy(&["1"]));
    let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 1000, &metrics);
    let probe = |perf: &mut Perf, uids: &[&str]| {
        perf.watch(&uids.iter().map(|uid| pod(uid)).collect());
        let states = perf.states();
        assert_eq!(states.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [SOFTWARE, HARDWARE]);
        assert_eq!(states[0].1, states[1].1);
        let (state, message) = states[0].1.clone();
        let message = message.replace(&root.path().display().to_string(), "ROOT");
        format!("{}: {}", <&str>::from(state), message.split(':').take(2).collect::<Vec<_>>().join(":"))
    };
    let no_pods = "ok: this node has no pod of an actor to count";
    let no_cgroup = "error: counts nothing: no pod of an actor has a cgroup below ROOT";
    assert_eq!(probe(&mut perf, &[]), no_pods);
    assert_eq!([(); 3].map(|()| probe(&mut perf, &["2"])), [no_pods, no_pods, no_cgroup]);
    assert_eq!(probe(&mut perf, &["1", "2"]), "ok: counts for pods of actors");
    assert_eq!(probe(&mut perf, &[]), no_pods);
    kernel.fails();
    let failed = probe(&mut perf, &["1"]);
    assert!(failed.starts_with("error: counts nothing: cannot open the events of a pod"), "{failed}");
}

/// A cgroup v2 hierarchy with a pod's cgroup in it, both removed on drop.
struct RealHierarchy {
    root: TempDir,
    pod: PathBuf,
}

impl RealHierarchy {
    fn mount() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "cgroup2", "none"]).arg(root.path()).output();
        let output = mount.expect("the command `mount` exists");
        assert!(
            output.status.success(),
            "this test must mount a cgroup v2 hierarchy as root: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let folder = format!("cairn-test-{}", std::process::id());
        let pod = root.path().join(folder);
        fs::create_dir_all(pod.join("kubepods/pod1/container")).unwrap();
        Self { root, pod }
    }
}

impl Drop for RealHierarchy {
    fn drop(&mut self) {
        for folder in ["kubepods/pod1/container", "kubepods/pod1", "kubepods", ""] {
            // a remaining cgroup is harmless
            let _ = fs::remove_dir(self.pod.join(folder));
        }
        let _ = Command::new("umount").arg(self.root.path()).status();
    }
}

/// A child process that computes on request, and reports completion.
struct LoadProcess {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl LoadProcess {
    fn start() -> Self {
        let work = "while read times; do i=0; while [ $i -lt $times ]; do i=$((i+1)); done; echo done; done";
        let mut process = Command::new("sh")
            .args(["-c", work])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, stdin, stdout }
    }

    fn work(&mut self, times: u32) {
        writeln!(self.stdin, "{times}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    /// Its CPU time according to the scheduler.
    fn cpu_seconds(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.process.id())).unwrap();
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn counted_cpu_time_equals_that_of_the_scheduler() {
    let hierarchy = RealHierarchy::mount();
    let metrics = Metrics::new().unwrap();
    // the pod's cgroup is in the test's own cgroup, which is the root for the agent
    let mut perf = Perf::new(Box::new(Kernel), hierarchy.root.path(), 1000, &metrics);
    let page = metrics.collectors_page();
    assert!(page.contains("perf_software ok"), "{page}");
    perf.root = hierarchy.pod.clone();
    let mut worker = LoadProcess::start();
    fs::write(hierarchy.pod.join("kubepods/pod1/container/cgroup.procs"), worker.process.id().to_string())
        .unwrap();
    perf.watch(&[pod("1")].into());
    assert!(perf.descriptors() > 0, "{page}");

    worker.work(20_000);
    perf.read();
    let used_before = worker.cpu_seconds();
    let mut switches = 0.0;
    for _ in 0..4 {
        worker.work(150_000);
        perf.read();
        switches = totals(&perf).1;
    }
    let used = worker.cpu_seconds() - used_before;
    let (counted, _) = totals(&perf);
    assert!(used > 0.1, "the worker used {used} s, too little to compare");
    assert!((counted / used - 1.0).abs() < 0.05, "counted {counted} s, used {used} s");
    assert!(switches >= 4.0, "the worker waited four times, but {switches} switches were counted");
}

/// CPU seconds and context switches of the only pod.
fn totals(perf: &Perf) -> (f64, f64) {
    let totals = perf.watched.values().next().unwrap().totals[&Set::Software].clone();
    (totals.counts[0] / 1e9, totals.counts[1])
}
