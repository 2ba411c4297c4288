//! Rules between pods, and between pods and volumes, as constraints.

use std::collections::BTreeMap;

use placement::file::{Constraint, Domain, Places};

use super::cluster::world_of;

/// Two hosts in zone a and one in b; a pool of their CPUs; an application of these groups; other documents.
pub fn cluster(groups: &str, more: &str) -> String {
    let node = |name: &str, zone: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, \
             topology.kubernetes.io/zone: {zone}}}}}, status: {{allocatable: {{cpu: \"4\", memory: 8Gi, pods: \"10\"}}}}}}\n---\n"
        )
    };
    format!(
        "{}{}{}{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: cpus}}, spec: {{kind: cpu}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app, namespace: ns, uid: own}}, \
         spec: {{actors: [{groups}]}}}}\n---\n{more}",
        node("n0", "a"),
        node("n1", "a"),
        node("n2", "b")
    )
}

/// A group whose pods have the label `app` with its name.
pub fn group(name: &str, replicas: u32, spec: &str) -> String {
    format!(
        "{{name: {name}, replicas: {replicas}, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{metadata: \
         {{labels: {{app: {name}}}}}, spec: {{{spec}}}}}}}]}}"
    )
}

const CONTAINER: &str = "containers: [{name: c}]";

/// A pod on a node, with a label.
pub fn pod(node: &str, app: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: other, namespace: ns, uid: p, labels: {{app: {app}}}}}, \
         spec: {{nodeName: {node}, {spec}}}}}"
    )
}

fn term(kind: &str, app: &str, key: &str) -> String {
    format!(
        "affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {key}, labelSelector: \
         {{matchLabels: {{app: {app}}}}}}}]}}}}"
    )
}

/// The constraints as text, without reasons.
pub fn shown(yaml: &str) -> String {
    let short = |ids: &[String]| {
        ids.iter().map(|id| id.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>().join(",")
    };
    let of_kinds = |ids: &[String], kinds: Option<&BTreeMap<String, Vec<String>>>| {
        let one = |id: &String| {
            let kinds = kinds.and_then(|kinds| kinds.get(id)).map(|kinds| format!("[{}]", kinds.join(",")));
            short(std::slice::from_ref(id)) + &kinds.unwrap_or_default()
        };
        ids.iter().map(one).collect::<Vec<_>>().join(",")
    };
    let domain = |domain: &Domain| format!("{}+{}", domain.nodes.join(","), domain.others);
    let world = world_of(yaml).unwrap();
    let one = |constraint: &Constraint| match constraint {
        Constraint::Apart { on, actors, .. } => format!("apart {on} {}", short(actors)),
        Constraint::Never { actors, places: Places::Units(units), except_current: true, .. } => {
            format!("never {} {}", short(actors), units.join(",").replace("/cpus-0", ""))
        }
        Constraint::Avoid { actors, places: Places::Units(units), .. } => {
            format!("avoid {} {}", short(actors), units.join(",").replace("/cpus-0", ""))
        }
        Constraint::Quota { actors, max, .. } => format!("quota {} {max}", short(actors)),
        Constraint::Peers { actors, peers, domains, actor_kinds, peer_kinds, max, skew, join, .. } => {
            format!(
                "peers {} of {}: {}; {max:?} {skew:?} {join:?}",
                of_kinds(actors, actor_kinds.as_ref()),
                of_kinds(peers, peer_kinds.as_ref()),
                domains.iter().map(domain).collect::<Vec<_>>().join(" ")
            )
        }
        other => format!("{other:?}"),
    };
    world.snapshot.file().constraints.iter().map(one).collect::<Vec<_>>().join("\n").replace("Some", "")
}

#[test]
fn rules_between_pods_become_constraints() {
    let host = "kubernetes.io/hostname";
    let zone = "topology.kubernetes.io/zone";
    let with = |spec: &str| format!("{spec}, {CONTAINER}");
    let apart = |app: &str, key: &str| with(&term("podAntiAffinity", app, key));
    let near = |app: &str, key: &str| with(&term("podAffinity", app, key));
    let spread = |more: &str| {
        with(&format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {zone}, whenUnsatisfiable: DoNotSchedule, \
             labelSelector: {{matchLabels: {{app: a}}}}{more}}}]"
        ))
    };
    let port =
        |port: &str| format!("containers: [{{name: c, ports: [{{containerPort: 80, hostPort: {port}}}]}}]");
    let two = |a: &str, b: &str| format!("{}, {}", group("a", 2, a), group("b", 1, b));
    for (groups, more, expected) in [
        (group("a", 2, &apart("a", host)), String::new(), "apart node a-0,a-1"),
        (group("a", 2, &apart("a", zone)), String::new(), "apart zone a-0,a-1"),
        // a single actor is no pair
        (group("a", 1, &apart("a", host)), String::new(), ""),
        // nodes without the label are free
        (group("a", 2, &apart("a", "rack")), String::new(), ""),
        (
            two(&apart("b", zone), CONTAINER),
            String::new(),
            "peers a-0,a-1 of b-0: n0,n1+0 n2+0; (0) None None",
        ),
        // both directions with pods that run
        (group("a", 1, &apart("x", zone)), pod("n0", "x", CONTAINER), "never a-0 n0,n1"),
        (group("a", 1, CONTAINER), pod("n2", "x", &apart("a", zone)), "never a-0 n2"),
        (group("a", 1, CONTAINER), pod("n2", "x", &apart("b", zone)), ""),
        // the first actor of a group determines the domain
        (
            group("a", 2, &near("a", host)),
            String::new(),
            "peers a-0,a-1 of a-0,a-1: n0+0 n1+0 n2+0; None None (First)",
        ),
        (
            group("a", 1, &near("x", zone)),
            pod("n1", "x", CONTAINER),
            "peers a-0 of : n0,n1+1 n2+0; None None (Peer)",
        ),
        (group("a", 2, &spread("")), String::new(), "peers a-0,a-1 of a-0,a-1: n0,n1+0 n2+0; None (1) None"),
        (
            group("a", 2, &spread(", minDomains: 3")),
            pod("n2", "a", CONTAINER),
            "peers a-0,a-1 of a-0,a-1: n0,n1+0 n2+1 +0; None (1) None",
        ),
        // an empty selector counts no pods
        (group("a", 2, &spread("").replace("{matchLabels: {app: a}}", "{}")), pod("n0", "a", CONTAINER), ""),
        (
            two(&port("8080"), &port("8080, protocol: UDP")),
            pod("n1", "x", &port("8080, hostIP: 10.0.0.1")),
            "never a-0,a-1 n1\napart node a-0,a-1",
        ),
        (two(&port("8080"), &port("8080")), String::new(), "apart node a-0,a-1\napart node a-0,a-1,b-0"),
    ] {
        assert_eq!(shown(&cluster(&groups, &more)), expected, "{groups} beside {more}");
    }
}

/// A required affinity to pods whose label `app` is one of these, or none.
fn near(operator: &str, apps: &str, key: &str) -> String {
    format!(
        "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {key}, labelSelector: \
         {{matchExpressions: [{{key: app, operator: {operator}, values: [{apps}]}}]}}}}]}}}}, {CONTAINER}"
    )
}

/// Whether plans with these actors on these nodes are feasible, beside other pods.
#[test]
fn groups_that_need_each_other_stay_unplaced() {
    let host = "kubernetes.io/hostname";
    let zone = "topology.kubernetes.io/zone";
    let groups = |all: &[(&str, u32, String)]| {
        let all: Vec<String> =
            all.iter().map(|(name, replicas, spec)| group(name, *replicas, spec)).collect();
        all.join(", ")
    };
    let to = |apps: &str, key: &str| near("In", apps, key);
    let free = || CONTAINER.to_owned();
    let ring = groups(&[("web", 1, to("db", host)), ("db", 1, to("web", host))]);
    let mixed = groups(&[("web", 1, to("db", host)), ("db", 1, to("web", zone))]);
    let three = groups(&[("a", 1, to("b", host)), ("b", 1, to("c", host)), ("c", 1, to("a", host))]);
    let entered =
        groups(&[("web", 1, to("db", host)), ("db", 1, to("web, cache", host)), ("cache", 1, free())]);
    let pairs = groups(&[("a", 2, to("a, c", host)), ("c", 2, near("NotIn", "x", host))]);
    let led = groups(&[("l", 2, to("l, w", host)), ("w", 2, to("l", host))]);
    let same = groups(&[("cache", 2, to("cache", zone)), ("web", 1, to("cache", zone))]);
    let none = String::new;
    let web = || pod("n1", "web", CONTAINER);
    for (groups, more, places, is_accepted) in [
        (&ring, none(), "", true),
        (&ring, none(), "web-0 n0 db-0 n0", false),
        (&ring, web(), "web-0 n0 db-0 n0", false),
        (&ring, web(), "web-0 n1 db-0 n1", true),
        (&mixed, none(), "web-0 n0 db-0 n0", false),
        (&mixed, web(), "web-0 n0 db-0 n0", true),
        (&mixed, web(), "web-0 n2 db-0 n2", false),
        (&three, none(), "a-0 n0 b-0 n0 c-0 n0", false),
        (&entered, none(), "web-0 n0 db-0 n0 cache-0 n1", false),
        (&entered, none(), "web-0 n0 db-0 n0 cache-0 n0", true),
        // each selects itself: the first pod determines the domain of all
        (&pairs, none(), "a-0 n0 c-0 n0 a-1 n1 c-1 n1", false),
        (&pairs, none(), "a-0 n1 c-0 n1 a-1 n1 c-1 n1", true),
        (&pairs, pod("n2", "x", CONTAINER), "a-0 n1 c-0 n1 a-1 n1 c-1 n1", true),
        (&pairs, pod("n2", "c", CONTAINER), "a-0 n1 c-0 n1 a-1 n1 c-1 n1", false),
        // stricter than kube-scheduler: the pod is selected by one of the two
        (&pairs, pod("n2", "y", CONTAINER), "a-0 n1 c-0 n1 a-1 n1 c-1 n1", false),
        (&led, none(), "l-0 n0 w-0 n0 l-1 n1 w-1 n1", false),
        (&led, none(), "l-0 n0 w-0 n0 l-1 n0 w-1 n0", true),
        (&led, none(), "w-0 n0 w-1 n0", false),
        // with equal terms, one selects itself and the other does not
        (&same, none(), "cache-0 n0 cache-1 n1 web-0 n1", true),
        (&same, none(), "cache-0 n0 cache-1 n1 web-0 n2", false),
        (&same, none(), "cache-0 n0 cache-1 n2", false),
        (&same, none(), "web-0 n0", false),
    ] {
        let snapshot = world_of(&cluster(groups, &more)).unwrap().snapshot;
        let words: Vec<&str> = places.split_whitespace().collect();
        let place = |actor: &placement::file::Actor| {
            let at = words.chunks(2).find(|pair| actor.id.ends_with(&format!("/{}", pair[0])))?;
            snapshot.unit(&format!("{}/cpus-0", at[1]))
        };
        let assignment: placement::Assignment = snapshot.file().actors.iter().map(place).collect();
        assert_eq!(assignment.iter().flatten().count(), words.len() / 2, "{places}");
        let found = snapshot.violations(&assignment);
        assert_eq!(found.is_empty(), is_accepted, "{places} beside {more} of {groups}: {found:?}");
    }
    let reason = shown_reasons(&cluster(&ring, ""));
    let expected = "affinity of db, web to each other by kubernetes.io/hostname: the first of them needs \
                    another pod that it selects";
    assert!(reason.contains(expected), "{reason}");
}

/// The reasons of the constraints.
pub fn shown_reasons(yaml: &str) -> String {
    let world = world_of(yaml).unwrap();
    let reasons = world.snapshot.file().constraints.iter().filter_map(|it| it.reason());
    reasons.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_spread_counts_the_nodes_that_pods_of_the_pool_accept() {
    let spread = |policy: &str| {
        format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: \
             DoNotSchedule, labelSelector: {{matchLabels: {{app: a}}}}{policy}}}], {CONTAINER}"
        )
    };
    let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: near}, handler: h, \
                 scheduling: {nodeSelector: {topology.kubernetes.io/zone: a}}}";
    let [both, one] = ["n0,n1+0 n2+0", "n0,n1+0"];
    let honor = ", nodeTaintsPolicy: Honor";
    for (defaults, policy, domains) in [
        ("", "", both),
        ("", honor, one),
        (", podDefaults: {tolerations: [{key: k, operator: Exists}]}", honor, both),
        (", podDefaults: {tolerations: [{key: other, operator: Exists}]}", honor, one),
        (", podDefaults: {runtimeClassName: near}", "", one),
        (", podDefaults: {runtimeClassName: near}", ", nodeAffinityPolicy: Ignore", both),
    ] {
        let yaml = cluster(&group("a", 2, &spread(policy)), class)
            .replace("zone: b}}, ", "zone: b}}, spec: {taints: [{key: k, effect: NoSchedule}]}, ")
            .replace("{kind: cpu}", &format!("{{kind: cpu{defaults}}}"));
        let shown = shown(&yaml);
        let expected = format!("peers a-0,a-1 of a-0,a-1: {domains}; None (1) None");
        assert!(shown.lines().any(|line| line == expected), "{defaults}{policy}: {shown}");
    }
}

#[test]
fn claims_become_constraints() {
    let spec = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: c}]";
    let claim = |spec: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data, namespace: ns}}, spec: {{{spec}}}}}"
        )
    };
    let volume = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {csi: {driver: d, volumeHandle: h}, \
                  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, \
                  operator: In, values: [b]}]}]}}}}";
    let class = |more: &str| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: fast}}, provisioner: d{more}}}"
        )
    };
    let waits = ", volumeBindingMode: WaitForFirstConsumer";
    let in_a =
        "allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [a]}]}]";
    let limit = "{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n2}, spec: {drivers: [{name: d, nodeID: n2, \
                 allocatable: {count: 0}}]}}";
    let all = "never a-0,a-1 n0,n1,n2";
    let bound = "volumeName: pv, accessModes: [ReadWriteMany]";
    for (more, expected) in [
        (format!("{}\n---\n{volume}", claim(bound)), "never a-0,a-1 n0,n1"),
        (format!("{}\n---\n{volume}\n---\n{limit}", claim(bound)), "never a-0,a-1 n0,n1\nnever a-0,a-1 n2"),
        (claim("volumeName: gone"), all),
        (format!("{}\n---\n{}", claim("storageClassName: fast"), class("")), all),
        (claim("storageClassName: fast"), all),
        (format!("{}\n---\n{}", claim("storageClassName: fast"), class(waits)), ""),
        (
            format!("{}\n---\n{}", claim("storageClassName: fast"), class(&format!("{waits}, {in_a}"))),
            "never a-0,a-1 n2",
        ),
        (
            format!(
                "{}\n---\n{}",
                claim("storageClassName: fast, accessModes: [ReadWriteOncePod]"),
                class(waits)
            ),
            "quota a-0,a-1 1",
        ),
    ] {
        assert_eq!(shown(&cluster(&group("a", 2, spec), &more)), expected, "{more}");
    }
}

#[test]
fn nodes_that_evict_after_some_time_are_avoided() {
    let tolerations =
        "tolerations: [{key: maintenance, operator: Exists, tolerationSeconds: 60}], containers: [{name: c}]";
    let tainted = |yaml: String, nodes: &[&str]| {
        nodes.iter().fold(yaml, |yaml, node| {
            let place =
                format!("topology.kubernetes.io/zone: {}}}}},", if *node == "n2" { "b" } else { "a" });
            let from = yaml.find(&format!("hostname: {node}")).unwrap();
            let at = from + yaml[from..].find(&place).unwrap() + place.len();
            format!(
                "{} spec: {{taints: [{{key: maintenance, effect: NoExecute}}]}},{}",
                &yaml[..at],
                &yaml[at..]
            )
        })
    };
    for (replicas, nodes, expected) in
        [(2, &[][..], ""), (2, &["n0"], "avoid a-0,a-1 n0"), (1, &["n0", "n2"], "avoid a-0 n0\navoid a-0 n2")]
    {
        let yaml = tainted(cluster(&group("a", replicas, tolerations), ""), nodes);
        assert_eq!(shown(&yaml), expected, "{replicas} {nodes:?}");
    }
}

#[test]
fn rules_that_are_not_modelled_are_named() {
    let spec = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: \
                {matchExpressions: [{key: disk, operator: Exists}]}}]}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, \
                whenUnsatisfiable: ScheduleAnyway}], containers: [{name: c}]";
    let left = |spec: &str| {
        world_of(&cluster(&group("a", 1, spec), "")).unwrap().snapshot.file().left_to_scheduler.join("; ")
    };
    assert_eq!(
        left(spec),
        "a: preferred node affinity (not considered); a: topology spread with ScheduleAnyway (not considered)"
    );
    assert_eq!(left(CONTAINER), "");
    let features = "a: features that nodes declare";
    assert_eq!(left("hostNetwork: true, hostUsers: false, containers: [{name: c}]"), features);
    assert_eq!(left("hostNetwork: true, containers: [{name: c}]"), "");
    let restarts = |action: &str| {
        format!(
            "containers: [{{name: c, restartPolicyRules: [{{action: {action}, exitCodes: {{operator: In, values: [3]}}}}]}}]"
        )
    };
    assert_eq!(left(&restarts("RestartAllContainers")), features);
    assert_eq!(left(&restarts("Restart")), "");
    let quota = |spec: &str| {
        let quota = format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: ns}}, spec: {{{spec}}}}}"
        );
        let world = world_of(&cluster(&group("a", 1, CONTAINER), &quota)).unwrap();
        world.snapshot.file().left_to_scheduler.join("; ")
    };
    assert_eq!(quota("hard: {pods: 9, requests.cpu: 9, count/services: 1}"), "");
    assert_eq!(quota("hard: {limits.memory: 9Gi, cpu: 9}"), "ResourceQuota q: the sum of limits.memory");
    assert_eq!(quota("hard: {pods: 9}, scopes: [BestEffort]"), "ResourceQuota q: its scopes");
}

/// An application of another tenant, decided on `n0`.
fn other(groups: &str) -> String {
    format!(
        "{{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: other, namespace: ns, uid: other}}, \
         spec: {{actors: [{groups}]}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: other, namespace: ns, ownerReferences: [\
         {{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, name: other, uid: other, controller: true}}]}}, spec: {{application: other, \
         applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, assignments: [\
         {{actor: b-0, unit: n0/cpus-0, node: n0, pool: cpus}}]}}}}"
    )
}

#[test]
fn long_lists_of_templates_are_refused_and_not_walked_for_others() {
    let list =
        |count: usize, entry: &dyn Fn(usize) -> String| (0..count).map(entry).collect::<Vec<_>>().join(", ");
    let spreads = |count: usize| {
        let entry = |skew: usize| {
            format!(
                "{{maxSkew: {}, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}}",
                skew + 1
            )
        };
        format!("topologySpreadConstraints: [{}], {CONTAINER}", list(count, &entry))
    };
    let apart = |kind: &str, count: usize| {
        let entry = |at: usize| {
            let label = if at == 0 { "a".to_owned() } else { format!("x{at}") };
            format!(
                "{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: {label}}}}}}}"
            )
        };
        format!(
            "affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}}, {CONTAINER}",
            list(count, &entry)
        )
    };
    let tolerations = |count: usize| {
        format!(
            "tolerations: [{}], {CONTAINER}",
            list(count, &|at| format!("{{key: k{at}, operator: Exists}}"))
        )
    };
    let refused = |groups: &str| world_of(&cluster(groups, "")).err().map(|e| e.to_string());
    for (spec, longest) in [
        (spreads(2000), "2000 topologySpreadConstraints"),
        (spreads(65), "65 topologySpreadConstraints"),
        (apart("podAntiAffinity", 65), "65 required terms of podAntiAffinity"),
        (apart("podAffinity", 65), "65 required terms of podAffinity"),
        (tolerations(65), "65 tolerations"),
    ] {
        let expected = format!(
            "spec.actors[a].implementations[cpu].template: has {longest}, at most 64 are supported; remove some"
        );
        assert_eq!(refused(&group("a", 1, &spec)), Some(expected));
        // The other application is unaffected, and gets a warning.
        let world = world_of(&cluster(&group("a", 1, CONTAINER), &other(&group("b", 1, &spec)))).unwrap();
        assert!(
            world.warnings.iter().any(|note| note.message.starts_with("the manifests of other are invalid"))
        );
    }
    for spec in [spreads(64), apart("podAntiAffinity", 64), tolerations(64)] {
        assert_eq!(refused(&group("a", 1, &spec)), None);
    }
    let many: Vec<String> = (0..17).map(|at| group(&format!("g{at}"), 1, &spreads(64))).collect();
    assert_eq!(
        refused(&many.join(", ")).unwrap(),
        "the templates have 1088 topology spread constraints, pod affinity terms and host ports in total, at most 1024 are \
         supported; divide the application"
    );
    let ports = list(1025, &|port| format!("{{containerPort: {}}}", port + 1));
    let on_host = format!("hostNetwork: true, containers: [{{name: c, ports: [{ports}]}}]");
    assert!(refused(&group("a", 1, &on_host)).unwrap().starts_with("the templates have 1025 "));
    for (count, expected) in [(1, "never a-0 n0"), (64, "never a-0 n0"), (65, "")] {
        let other = other(&group("b", 1, &apart("podAntiAffinity", count)));
        assert_eq!(shown(&cluster(&group("a", 1, CONTAINER), &other)), expected, "{count} terms");
    }
}
