//! Commands on a cluster: a fake API server that serves lists and gets of the examples.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::{File, cairn, root};

const POLICY: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: throughput, namespace: cairn-system, \
                      labels: {cairn.dev/policy: 'true'}}, data: {policy.yaml: 'strategy: greedy'}}";

/// A fake API server that lives as long as the test.
struct Server {
    kubeconfig: File,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves these manifests. The kind `without` is unknown, or forbidden after a `!`; `*` forbids lists over all namespaces, `**` all
    /// requests, and `login` refuses the credentials.
    fn new(texts: &[String], without: &'static str) -> Self {
        let mut lists: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for text in texts {
            for document in serde_yaml::Deserializer::from_str(text) {
                let object = Value::deserialize(document).unwrap();
                let Some(kind) = object["kind"].as_str() else { continue };
                lists.entry(plural(kind)).or_default().push(object);
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                respond(stream.unwrap(), &lists, without, &seen);
            }
        });
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n\
             clusters: [{{name: here, cluster: {{server: 'http://{address}'}}}}]\n\
             users: [{{name: me, user: {{}}}}]\n"
        );
        Self { kubeconfig: File::new("config", &config), requests }
    }

    /// The methods and paths of all requests, sorted, without parameters.
    fn requests(&self) -> Vec<String> {
        let mut requests = self.requests.lock().unwrap().clone();
        requests.sort_unstable();
        requests
    }
}

fn plural(kind: &str) -> String {
    let small = kind.to_lowercase();
    let end = if small.ends_with('s') { "es" } else { "s" };
    small.strip_suffix('y').map_or(format!("{small}{end}"), |stem| format!("{stem}ies"))
}

/// Reads one request, records it, and responds.
fn respond(
    mut stream: TcpStream,
    lists: &BTreeMap<String, Vec<Value>>,
    without: &str,
    seen: &Mutex<Vec<String>>,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let request = first.trim_end_matches(" HTTP/1.1").split('?').next().unwrap().to_owned();
    // A request without a body ends with an empty line.
    lines.find(String::is_empty);
    seen.lock().unwrap().push(request.clone());
    let path: Vec<&str> = request.split('/').collect();
    let known = |name: &str| !without.is_empty() && name == without;
    let status = |code: u16, reason: &str| {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": format!("{reason} here"),
               "reason": reason, "code": code, "metadata": {}})
    };
    let all = |plural: &str| lists.get(plural).cloned().unwrap_or_default();
    let spans_namespaces = !path[..path.len() - 1].contains(&"namespaces");
    let (code, body) = match path.as_slice() {
        _ if without == "*" && spans_namespaces => (403, status(403, "Forbidden")),
        _ if without == "**" => (403, status(403, "Forbidden")),
        _ if without == "login" => (401, status(401, "Unauthorized")),
        [.., plural] if without.strip_prefix('!') == Some(*plural) => (403, status(403, "Forbidden")),
        [.., plural] if known(plural) => (404, status(404, "NotFound")),
        [.., plural, name] if lists.contains_key(*plural) => {
            match all(plural).into_iter().find(|object| object["metadata"]["name"] == *name) {
                Some(found) => (200, found),
                None => (404, status(404, "NotFound")),
            }
        }
        [.., plural] => {
            (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": all(plural)}))
        }
        [] => (400, status(400, "BadRequest")),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nConnection: close\r\n");
    // The client may have closed the connection.
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
}

fn examples(more: &str) -> Vec<String> {
    let read = |name: &str| std::fs::read_to_string(root().join("examples").join(name)).unwrap();
    let files =
        ["nodes.yaml", "pools.yaml", "surveillance.yaml", "topologies/cpu.yaml", "topologies/gpu.yaml"];
    let more_files = ["topologies/fpga.yaml", "topologies/numa.yaml"];
    let texts = files.into_iter().chain(more_files).map(read);
    texts.chain([POLICY.to_owned(), more.to_owned()]).collect()
}

#[test]
fn plan_lists_each_kind_once() {
    let server = Server::new(&examples(""), "");
    let ran = cairn(&["plan", "--kubeconfig", server.kubeconfig.path(), "--effort", "1000"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 0
    vision/surveillance  strategy greedy · policy throughput · seed 1

    ACTOR       UNIT              NODE       KIND  POOL  CHANGE
    crop-0      cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    crop-1      cairn-cpu/cpus-0  cairn-cpu  cpu   cpus  starts
    classify-0  cairn-gpu/gpus-0  cairn-gpu  gpu   gpus  starts
    classify-1  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    classify-2  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    classify-3  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts
    classify-4  cairn-gpu/gpus-1  cairn-gpu  gpu   gpus  starts
    localize-0  cairn-gpu/cpus-0  cairn-gpu  cpu   cpus  starts

    8/8 actors placed · overload 0 · communication 69,480 · annoyance 23
    Not proven optimal, the search ended without a proof: communication+migration has no lower bound. (found by construction, judged by clingo)
    ");
    insta::assert_snapshot!(server.requests().join("\n"), @r"
    GET /api/v1/limitranges
    GET /api/v1/namespaces
    GET /api/v1/namespaces/cairn-system/configmaps
    GET /api/v1/nodes
    GET /api/v1/persistentvolumeclaims
    GET /api/v1/persistentvolumes
    GET /api/v1/pods
    GET /api/v1/resourcequotas
    GET /api/v1/serviceaccounts
    GET /apis/cairn.dev/v1alpha1/actorapplications
    GET /apis/cairn.dev/v1alpha1/devicepools
    GET /apis/cairn.dev/v1alpha1/instances
    GET /apis/cairn.dev/v1alpha1/nodetopologies
    GET /apis/cairn.dev/v1alpha1/placements
    GET /apis/node.k8s.io/v1/runtimeclasses
    GET /apis/resource.k8s.io/v1/deviceclasses
    GET /apis/resource.k8s.io/v1/resourceclaims
    GET /apis/resource.k8s.io/v1/resourceclaimtemplates
    GET /apis/resource.k8s.io/v1/resourceslices
    GET /apis/scheduling.k8s.io/v1/priorityclasses
    GET /apis/storage.k8s.io/v1/csidrivers
    GET /apis/storage.k8s.io/v1/csinodes
    GET /apis/storage.k8s.io/v1/csistoragecapacities
    GET /apis/storage.k8s.io/v1/storageclasses
    ");
}

/// A template names a `PriorityClass`: it is missing, exists, cannot be listed, or the kind is not served.
#[test]
fn kinds_that_only_templates_refer_to_are_optional() {
    let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1}";
    let forbidden = "warning: cannot list priorityclasses; what its objects decide is not checked: ";
    for (more, without, expected) in [
        ("", "", (Some(2), false)),
        (class, "", (Some(0), false)),
        ("", "!priorityclasses", (Some(0), true)),
        ("", "priorityclasses", (Some(2), false)),
    ] {
        let texts = examples(more).into_iter();
        let texts =
            texts.map(|text| text.replace("containers:", "priorityClassName: high\n          containers:"));
        let server = Server::new(&texts.collect::<Vec<_>>(), without);
        let ran = cairn(&["plan", "--kubeconfig", server.kubeconfig.path(), "--effort", "1000"]);
        assert_eq!((ran.code, ran.err.starts_with(forbidden)), expected, "{more} {without}: {}", ran.all());
        let is_missing = ran.out.contains("PriorityClass high of the template does not exist");
        assert_eq!(is_missing, ran.code == Some(2), "{}", ran.out);
    }
}

#[test]
fn changes_are_relative_to_the_current_placement() {
    let placement = "{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: surveillance, namespace: vision}, \
        spec: {application: surveillance, applicationGeneration: 1, policy: throughput, snapshotDigest: x, \
        strategy: greedy, seed: 1, effort: 1, assignments: [\
        {actor: crop-0, unit: cairn-gpu/cpus-0, node: cairn-gpu, pool: cpus}, \
        {actor: localize-0, unit: cairn-cpu/cpus-0, node: cairn-cpu, pool: cpus}]}}";
    let server = Server::new(&examples(placement), "");
    let ran = cairn(&["plan", "--kubeconfig", server.kubeconfig.path(), "--effort", "1000"]);
    insta::assert_snapshot!(ran.all(), @r"
    exit 0
    vision/surveillance  strategy greedy · policy throughput · seed 1

    ACTOR       UNIT               NODE        KIND  POOL  CHANGE
    crop-0      cairn-cpu/cpus-0   cairn-cpu   cpu   cpus  moves from cairn-gpu/cpus-0
    crop-1      cairn-fpga/cpus-0  cairn-fpga  cpu   cpus  starts
    classify-0  cairn-fpga/cpus-0  cairn-fpga  cpu   cpus  starts
    classify-1  cairn-cpu/cpus-0   cairn-cpu   cpu   cpus  starts
    classify-2  cairn-cpu/cpus-0   cairn-cpu   cpu   cpus  starts
    classify-3  cairn-cpu/cpus-0   cairn-cpu   cpu   cpus  starts
    classify-4  cairn-fpga/cpus-0  cairn-fpga  cpu   cpus  starts
    localize-0  cairn-cpu/cpus-0   cairn-cpu   cpu   cpus  stays

    Moves
      crop-0: staying would raise communication+migration by 32916

    8/8 actors placed · overload 0 · communication 100,440 + migration 564 · annoyance 17
    Not proven optimal, the search ended without a proof: communication+migration has no lower bound. (found by construction, judged by clingo)
    ");
}

#[test]
fn current_placement_is_explained() {
    let placement = "{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: surveillance, namespace: vision}, \
        spec: {application: surveillance, applicationGeneration: 1, policy: throughput, snapshotDigest: x, \
        strategy: greedy, seed: 1, effort: 1, assignments: [\
        {actor: crop-0, unit: cairn-gpu/cpus-0, node: cairn-gpu, pool: cpus}, \
        {actor: classify-0, unit: cairn-gpu/gpus-0, node: cairn-gpu, pool: gpus}, \
        {actor: localize-0, unit: cairn-cpu/cpus-0, node: cairn-cpu, pool: cpus}]}}";
    let server = Server::new(&examples(placement), "");
    let on =
        ["explain", "actorapp", "surveillance", "-n", "vision", "--kubeconfig", server.kubeconfig.path()];
    insta::assert_snapshot!(cairn(&on).all(), @r"
    exit 2
    vision/surveillance  policy throughput

    ACTOR       UNIT              ALTERNATIVE              EFFECT
    crop-0      cairn-gpu/cpus-0  2 units of pool cpus     communication+migration +11,364
                                  2 units of pool sockets  communication+migration +11,364
                                  cairn-fpga/fpgas-0       communication+migration +16,764
                                  2 units of pool gpus     forbidden: runs on cpu and fpga only
    classify-0  cairn-gpu/gpus-0  cairn-cpu/cpus-0         communication+migration -15,340 · annoyance -1
                                  cairn-gpu/cpus-0         communication+migration -4,180 · annoyance -3
                                  cairn-gpu/gpus-1         communication+migration +500
                                  cairn-fpga/cpus-0        communication+migration +6,980
                                  2 units of pool sockets  communication+migration +6,980
                                  cairn-fpga/fpgas-0       communication+migration +16,700
    localize-0  cairn-cpu/cpus-0  cairn-gpu/cpus-0         communication+migration -21,100
                                  cairn-fpga/cpus-0        communication+migration +500
                                  2 units of pool sockets  communication+migration +500
                                  cairn-fpga/fpgas-0       forbidden: runs on cpu only
                                  2 units of pool gpus     forbidden: runs on cpu only

    Full units
      cairn-gpu/gpus-0: 1 of 1 slots taken

    Unplaced
      crop-1: there is room: crop-1 on cairn-cpu/cpus-0
      classify-1: there is room: classify-1 on cairn-cpu/cpus-0
      classify-2: there is room: classify-2 on cairn-cpu/cpus-0
      classify-3: there is room: classify-3 on cairn-cpu/cpus-0
      classify-4: there is room: classify-4 on cairn-cpu/cpus-0

    3/8 actors placed · overload 0 · communication 27,000 · annoyance 4
    ");
    let single = cairn(&[&on[..], &["--actor", "crop-0", "-o", "json"]].concat());
    insta::assert_snapshot!(single.json()["explanation"], @r#"{"actors":[{"actor":"vision/surveillance/crop-0","alternatives":[{"change":{"annoyance":0,"communication+migration":11364,"overload":0},"names":["cairn-cpu/cpus-0","cairn-fpga/cpus-0"],"units":2},{"change":{"annoyance":0,"communication+migration":11364,"overload":0},"names":["cairn-numa/sockets-0","cairn-numa/sockets-1"],"units":2},{"change":{"annoyance":0,"communication+migration":16764,"overload":0},"names":["cairn-fpga/fpgas-0"],"units":1},{"forbidden":"runs on cpu and fpga only","names":["cairn-gpu/gpus-0","cairn-gpu/gpus-1"],"units":2}],"unit":"cairn-gpu/cpus-0"}],"full":["cairn-gpu/gpus-0: 1 of 1 slots taken"],"inTheWay":[]}"#);
    let unknown = cairn(&[&on[..], &["--actor", "crop-9"]].concat());
    assert_eq!((unknown.code, unknown.out.as_str()), (Some(1), ""));
    insta::assert_snapshot!(unknown.err, @"error: vision/surveillance has no actor crop-9; its actors are crop-0, crop-1, classify-0, classify-1, classify-2, classify-3, classify-4, localize-0");
    // All requests are reads.
    assert!(server.requests().iter().all(|request| request.starts_with("GET ")));
}

#[test]
fn explanations_include_the_rules_of_the_policy() {
    let program = r#"forbid(A,U) :- group(A,"localize"), cu_node(U,"cairn-gpu").
        :- group(_,G), cu_node(_,N), #count { A : group(A,G), run_on(A,U), cu_node(U,N) } > 1.
        :- group(A,"classify"), run_on(A,U), not cu_node(U,"cairn-gpu")."#;
    let policy = POLICY.replace("greedy'", &format!("greedy', program.lp: {}", json!(program)));
    let explain = |assignments: &str, policy: &str| {
        let placement = "{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {name: surveillance, namespace: vision}, \
            spec: {application: surveillance, applicationGeneration: 1, policy: throughput, snapshotDigest: x, \
            strategy: greedy, seed: 1, effort: 1, assignments: [";
        let placement = format!("{placement}{assignments}]}}}}");
        let mut texts: Vec<String> = examples(&placement).into_iter().filter(|text| text != POLICY).collect();
        texts.push(policy.to_owned());
        let server = Server::new(&texts, "");
        cairn(&["explain", "actorapp", "vision/surveillance", "--kubeconfig", server.kubeconfig.path()])
    };
    let feasible = "{actor: crop-0, unit: cairn-cpu/cpus-0, node: cairn-cpu, pool: cpus}, \
        {actor: classify-0, unit: cairn-gpu/gpus-0, node: cairn-gpu, pool: gpus}, \
        {actor: localize-0, unit: cairn-cpu/cpus-0, node: cairn-cpu, pool: cpus}";
    insta::assert_snapshot!(explain(feasible, &policy).all(), @r"
    exit 2
    vision/surveillance  policy throughput

    ACTOR       UNIT              ALTERNATIVE              EFFECT
    crop-0      cairn-cpu/cpus-0  cairn-gpu/cpus-0         communication+migration -10,236
                                  cairn-fpga/cpus-0        communication+migration +564
                                  2 units of pool sockets  communication+migration +564
                                  cairn-fpga/fpgas-0       communication+migration +5,964
                                  2 units of pool gpus     forbidden: runs on cpu and fpga only
    classify-0  cairn-gpu/gpus-0  cairn-gpu/cpus-0         communication+migration -3,820
                                  cairn-gpu/gpus-1         communication+migration +500
                                  2 units of pool cpus     forbidden: policy throughput line 3: A = vision/surveillance/classify-0, U = cairn-cpu/cpus-0, and 1 more like it
                                  cairn-fpga/fpgas-0       forbidden: policy throughput line 3: A = vision/surveillance/classify-0, U = cairn-fpga/fpgas-0
                                  2 units of pool sockets  forbidden: policy throughput line 3: A = vision/surveillance/classify-0, U = cairn-numa/sockets-0, and 1 more like it
    localize-0  cairn-cpu/cpus-0  cairn-fpga/cpus-0        communication+migration +500
                                  2 units of pool sockets  communication+migration +500
                                  cairn-fpga/fpgas-0       forbidden: runs on cpu only
                                  2 units of pool gpus     forbidden: runs on cpu only
                                  cairn-gpu/cpus-0         forbidden: policy throughput line 1

    Full units
      cairn-gpu/gpus-0: 1 of 1 slots taken

    Rules that prevent a better plan
      policy throughput line 3: A = vision/surveillance/classify-0, U = cairn-cpu/cpus-0, and 3 more like it; without it classify-0 could run on cairn-cpu/cpus-0: communication+migration -37,300 · annoyance -4
      policy throughput line 1; without it localize-0 could run on cairn-gpu/cpus-0: communication+migration -21,100

    Unplaced
      crop-1: there is room: crop-1 on cairn-fpga/cpus-0
      classify-1: policy throughput line 2: G = classify, N = cairn-gpu; policy throughput line 3: A = vision/surveillance/classify-1, U = cairn-cpu/cpus-0, and 11 more like it
      classify-2: policy throughput line 2: G = classify, N = cairn-gpu; policy throughput line 3: A = vision/surveillance/classify-2, U = cairn-cpu/cpus-0, and 24 more like it
      classify-3: policy throughput line 2: G = classify, N = cairn-gpu; policy throughput line 3: A = vision/surveillance/classify-3, U = cairn-cpu/cpus-0, and 24 more like it
      classify-4: policy throughput line 2: G = classify, N = cairn-gpu; policy throughput line 3: A = vision/surveillance/classify-4, U = cairn-cpu/cpus-0, and 24 more like it

    3/8 actors placed · overload 0 · communication 37,800 · annoyance 4 · policy 0
    ");
    let infeasible = feasible.replace(
        "cairn-cpu/cpus-0, node: cairn-cpu, pool: cpus}",
        "cairn-gpu/cpus-0, node: cairn-gpu, pool: cpus}",
    );
    let text = explain(&infeasible, &policy).out;
    assert!(text.contains("the current placement is infeasible"), "{text}");
    let endless = POLICY.replace("greedy'", "greedy', program.lp: 'n(0). n(X+1) :- n(X).'");
    let text = explain(feasible, &endless).out;
    assert!(text.contains("the program of the policy is ignored: policy throughput"), "{text}");
    assert!(text.contains("3/8 actors placed"), "{text}");
}

#[test]
fn without_a_placement_a_new_plan_is_explained() {
    let server = Server::new(&examples(""), "");
    let ran =
        cairn(&["explain", "actorapp", "vision/surveillance", "--kubeconfig", server.kubeconfig.path()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("there is no placement yet; this explains a new plan"), "{}", ran.out);
}

#[test]
fn missing_kinds_have_an_installation_hint() {
    let server = Server::new(&examples(""), "devicepools");
    let ran = cairn(&["plan", "--kubeconfig", server.kubeconfig.path()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert_eq!(
        ran.err,
        "error: cannot list devicepools; install Cairn (docs/getting-started.md); if it is installed, `kubectl cairn doctor` \
         has the remedy: NotFound here\n"
    );
    let ran = cairn(&["status", "--kubeconfig", server.kubeconfig.path()]);
    let note = "\nNot installed in the cluster: devicepools; kubectl cairn doctor has the remedy\n";
    assert!(ran.out.ends_with(note) && !ran.out.contains("permissions"), "{}", ran.out);
}

#[test]
fn status_works_with_access_to_one_namespace() {
    let server = Server::new(&[crate::status::DUMP.to_owned()], "*");
    let on = ["status", "shop/web", "--kubeconfig", server.kubeconfig.path()];
    let ran = cairn(&on);
    let inaccessible = "Not accessible with your permissions: devicepools; in other namespaces: actorapplications, instances, placements\n";
    let (screen, note) = ran.out.rsplit_once("\n\n").unwrap();
    assert_eq!((ran.code, note), (Some(2), inaccessible), "{}", ran.err);
    let dump = File::new("dump.yaml", crate::status::DUMP);
    let all = cairn(&["status", "shop/web", "-f", dump.path()]).out;
    let without_kinds = |text: &str| -> Vec<String> {
        text.split_whitespace().filter(|word| !["KIND", "gpu"].contains(word)).map(str::to_owned).collect()
    };
    assert_eq!(without_kinds(screen), without_kinds(&all));
    let all = cairn(&["status", "-n", "shop", "--kubeconfig", server.kubeconfig.path()]);
    assert!(all.out.contains("shop/web     Degraded  3") && all.out.ends_with(inaccessible), "{}", all.out);
    // explain needs more permissions
    let ran = cairn(&["explain", "actorapp", "shop/web", "--kubeconfig", server.kubeconfig.path()]);
    let hint = "; this command needs read access to the whole cluster; `kubectl cairn status` needs only one namespace: ";
    assert!(ran.code == Some(1) && ran.err.contains(hint), "{}", ran.err);
    // without any access
    let server = Server::new(&[], "**");
    let ran = cairn(&["status", "shop/web", "--kubeconfig", server.kubeconfig.path()]);
    assert!(
        ran.code == Some(1)
            && ran.err.starts_with(
                "error: cannot list actorapplications; you need the role view in the namespace: "
            ),
        "{}",
        ran.err
    );
}

#[test]
fn refused_credentials_are_reported_with_server_and_context() {
    let server = Server::new(&[], "login");
    let ran = cairn(&["doctor", "--kubeconfig", server.kubeconfig.path()]);
    let (_, rest) = ran.err.split_once(": the server http://127.0.0.1:").unwrap();
    let (_, rest) = rest.split_once('/').unwrap();
    let expected = " of context here refuses the credentials; renew them, or set --kubeconfig or --context: Unauthorized here\n";
    assert_eq!((ran.code, rest), (Some(1), expected));
}

#[test]
fn doctor_fails_if_nothing_can_be_checked() {
    let server = Server::new(&[], "**");
    let ran = cairn(&["doctor", "--kubeconfig", server.kubeconfig.path()]);
    let expected = "error: nothing could be checked; you need read access to the whole cluster\n";
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), expected));
    let first = "?  operator   not checked: Forbidden here";
    assert!(ran.out.contains(first) && !ran.out.contains("Status {"), "{}", ran.out);
}

#[test]
fn doctor_reports_missing_kinds() {
    let server = Server::new(&examples(""), "nodetopologies");
    let ran = cairn(&["doctor", "--kubeconfig", server.kubeconfig.path()]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), ""));
    assert!(ran.out.contains("CustomResourceDefinitions are missing: nodetopologies"), "{}", ran.out);
}

#[test]
fn missing_and_invalid_policies_are_reported() {
    let texts: Vec<String> = examples("").into_iter().filter(|text| text != POLICY).collect();
    let server = Server::new(&texts, "");
    let ran = cairn(&["plan", "--kubeconfig", server.kubeconfig.path()]);
    assert_eq!(
        ran.err,
        "error: vision/surveillance: policy throughput does not exist; existing policies: (none)\n"
    );
    let invalid = POLICY.replace("greedy", "magic");
    let server = Server::new(&[texts, vec![invalid]].concat(), "");
    let ran = cairn(&["plan", "--kubeconfig", server.kubeconfig.path()]);
    assert_eq!(
        ran.err,
        "error: vision/surveillance: policy throughput: strategy: there is no strategy `magic`; use one of asp, greedy, local, clingo\n"
    );
}

/// Completion prints nothing on errors, because it would overwrite the command line.
#[test]
fn names_in_the_cluster_are_completed() {
    let next = |kubeconfig: &str, words: &[&str]| {
        let (command, rest) = words.split_at(1);
        let ran = cairn(&[&["__complete"], command, &["--kubeconfig", kubeconfig], rest].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
        ran.out
    };
    let server = Server::new(&[examples(""), vec![crate::status::DUMP.to_owned()]].concat(), "");
    let known = server.kubeconfig.path();
    assert_eq!(next(known, &["status", "vision/"]), "vision/surveillance\n:4\n");
    assert_eq!(next(known, &["topology", "cairn-n"]), "cairn-numa\n:4\n");
    assert_eq!(next(known, &["plan", "--application", "shop/w"]), "shop/web\n:4\n");
    assert_eq!(next(known, &["explain", "actorapp", "x", "--default-policy", "t"]), "throughput\n:4\n");
    assert_eq!(next(known, &["doctor", "--context", ""]), "here\n:4\n");
    let requests = server.requests();
    assert!(requests.contains(&"GET /api/v1/namespaces/cairn-system/configmaps".to_owned()), "{requests:?}");
    let forbidden = Server::new(&[], "**");
    assert_eq!(next(forbidden.kubeconfig.path(), &["status", ""]), ":4\n");
    // with access to one namespace
    let team = Server::new(&[crate::status::DUMP.to_owned()], "*");
    assert_eq!(next(team.kubeconfig.path(), &["status", "-n", "shop", "w"]), "web\n:4\n");
    assert_eq!(next("/does/not/exist", &["status", ""]), ":4\n");
    // a server that never responds
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = std::fs::read_to_string(known).unwrap();
    let there = kubeconfig.split("http://").nth(1).unwrap().split('\'').next().unwrap();
    let file = File::new("config", &kubeconfig.replace(there, &silent.local_addr().unwrap().to_string()));
    assert_eq!(next(file.path(), &["status", ""]), ":4\n");
}

#[test]
fn topology_of_a_node_in_the_cluster() {
    let server = Server::new(&examples(""), "");
    let on = ["--kubeconfig", server.kubeconfig.path()];
    let ran = cairn(&[&["topology", "cairn-gpu"], &on[..]].concat());
    assert_eq!(ran.out, cairn(&["topology", "cairn-gpu", "-f", "examples/topologies"]).out);
    let requests = [
        "GET /apis/cairn.dev/v1alpha1/nodetopologies/cairn-gpu",
        "GET /apis/resource.k8s.io/v1/resourceclaims",
        "GET /apis/resource.k8s.io/v1/resourceslices",
    ];
    assert_eq!(server.requests(), requests);
    let ran = cairn(&[&["topology", "nowhere"], &on[..]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("nodes with a NodeTopology: cairn-cpu, cairn-fpga, "), "{}", ran.err);
}
