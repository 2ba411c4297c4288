//! Pools over the devices of real servers: domains, models, partitions, shared devices.

use std::fmt::Write as _;

use super::cluster::shown;

/// A node `n0` with resources (`nvidia.com/gpu=8`, or labels `@key=value`) and devices, in words: `id type model numa memory-MiB`,
/// where `-` is nothing; a type with `<` is a partition, whose parent follows, and one with `@` has a driver.
struct Server<'a> {
    resources: &'a str,
    devices: &'a [&'a str],
}

impl Server<'_> {
    fn yaml(&self, name: &str) -> String {
        let (mut amounts, mut labels) = (String::new(), String::new());
        for pair in self.resources.split_whitespace() {
            let (key, value) = pair.rsplit_once('=').unwrap();
            match key.strip_prefix('@') {
                Some(label) => write!(labels, "{label}: '{value}', ").unwrap(),
                None => write!(amounts, "{key}: '{value}', ").unwrap(),
            }
        }
        let device = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [id, type_, model, numa, memory] = words[..] else { panic!("{line}") };
            let (type_, parent) = type_.split_once('<').unwrap_or((type_, "-"));
            let (type_, driver) = type_.split_once('@').unwrap_or((type_, "-"));
            let mut text = format!("{{id: '{id}', type: {}", type_.replace('_', " "));
            let mut put = |key: &str, value: &str| {
                if value != "-" {
                    write!(text, ", {key}: '{}'", value.replace('_', " ")).unwrap();
                }
            };
            put("parent", parent);
            put("driver", driver);
            match model.split_once(':') {
                Some((vendor, model)) => {
                    put("vendor", vendor);
                    put("model", model);
                }
                None => put("model", model),
            }
            let (numa, health) = numa.split_once('!').unwrap_or((numa, "-"));
            put("health", health);
            if numa != "-" {
                write!(text, ", numaNode: {numa}").unwrap();
            }
            if memory != "-" {
                let bytes = memory.parse::<i64>().unwrap() << 20;
                write!(text, ", memorySpaces: [{{type: Device RAM, sizeBytes: {bytes}}}]").unwrap();
            }
            text + "}"
        };
        let devices: Vec<_> = self.devices.iter().map(device).collect();
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}, status: {{allocatable: {{cpu: '8', memory: 8Gi, pods: '110', {amounts}}}}}}}\n\
             ---\n{{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: {name}}}, spec: {{devices: [{}]}}}}\n",
            devices.join(", ")
        )
    }
}

/// The units with their memory, and the status of the pools.
fn of(servers: &[Server<'_>], pools: &[&str]) -> String {
    beside(servers, pools, "")
}

/// The same with more documents, each after a separator.
fn beside(servers: &[Server<'_>], pools: &[&str], more: &str) -> String {
    let mut yaml = more.to_owned();
    for (nth, server) in servers.iter().enumerate() {
        yaml += &server.yaml(&format!("n{nth}"));
    }
    for (nth, spec) in pools.iter().enumerate() {
        writeln!(yaml, "---\n{{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: p{nth}}}, spec: {{{spec}}}}}").unwrap();
    }
    yaml += "---\n{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {name: app, namespace: ns}, spec: {actors: [\
             {name: a, implementations: [{kind: gpu, serviceTime: 1ms, template: {spec: {containers: [{name: c}]}}}]}]}}\n";
    let mut objects = world::Objects::default();
    objects.read("test", &yaml).unwrap();
    let index = world::Index::of(&objects);
    let mut lines: Vec<String> = world::units(&index, &world::Policy::builtin("p"))
        .values()
        .map(|unit| {
            let memory = unit.memory_mib.map_or("-".to_owned(), |memory| format!("{memory} MiB"));
            let slots = unit.slots.map_or("many".to_owned(), |slots| slots.to_string());
            format!(
                "{} {} {memory} slots {slots} work {}",
                unit.id,
                unit.numa.as_deref().unwrap_or("-"),
                unit.capacity
            )
        })
        .collect();
    lines.extend(shown(&yaml).lines().filter(|line| line.starts_with("pool ")).map(str::to_owned));
    lines.join("\n")
}

const GPUS: &str = "kind: gpu, resource: {devicePlugin: nvidia.com/gpu}";

#[test]
fn equal_gpus_in_two_domains_are_a_ready_pool() {
    let server = Server {
        resources: "nvidia.com/gpu=4",
        devices: &[
            "g0 GPU H100 0 80000",
            "g1 GPU H100 0 80000",
            "g2 GPU H100 1 80000",
            "g3 GPU H100 1 80000",
        ],
    };
    insta::assert_snapshot!(of(&[server], &[GPUS]));
}

#[test]
fn a_node_whose_resource_hands_out_other_models_offers_no_unit_and_the_pool_stays_ready() {
    let a100s = "kind: gpu, devices: {model: A100}, resource: {devicePlugin: nvidia.com/gpu}";
    let mixed = || Server {
        resources: "nvidia.com/gpu=3",
        devices: &["g0 GPU nvidia:A100 0 40000", "g1 GPU nvidia:A100 0 40000", "g2 GPU nvidia:T4 0 16000"],
    };
    let pure = || Server { resources: "nvidia.com/gpu=1", devices: &["g0 GPU nvidia:A100 0 40000"] };
    insta::assert_snapshot!("beside another node", of(&[mixed(), pure()], &[a100s]));
    insta::assert_snapshot!("alone", of(&[mixed()], &[a100s]));
    insta::assert_snapshot!("one pool of all models", of(&[mixed()], &[GPUS]));
    for (resources, what) in [
        ("nvidia.com/gpu=2 nvidia.com/t4=1", "each model has its own resource"),
        ("nvidia.com/gpu=8 nvidia.com/t4=4", "the same, shared"),
        ("nvidia.com/gpu=2", "the other one is not offered"),
    ] {
        let found = of(&[Server { resources, ..mixed() }], &[a100s]);
        assert!(!found.contains("Ambiguous") && found.contains("n0/p0-1"), "{what}: {found}");
    }
    let lost = Server {
        devices: &["g0 GPU nvidia:A100 0 -", "g1 GPU nvidia:A100 0!lost -", "g2 GPU nvidia:T4 0 -"],
        resources: "nvidia.com/gpu=2",
    };
    assert!(of(&[lost], &[a100s]).contains("Ambiguous"), "one that is offered is a T4");
    for (resources, is_ambiguous, what) in [
        ("nvidia.com/gpu=6 nvidia.com/t4=3", false, "the T4 has its own resource, both are shared"),
        ("nvidia.com/gpu=6 nvidia.com/gpu_monitoring=1", true, "monitoring of all devices"),
        ("nvidia.com/gpu=6 nvidia.com/millicores=1000", true, "shares of devices"),
        ("nvidia.com/gpu=6 nvidia.com/tiles=1", true, "parts of devices"),
        ("nvidia.com/gpu=6 nvidia.com/memory.max=100", true, "memory of devices"),
        ("nvidia.com/gpu=6 nvidia.com/mig-1g.5gb=1", true, "partitions"),
    ] {
        let found = of(&[Server { resources, ..mixed() }], &[a100s]);
        assert_eq!(found.contains("Ambiguous"), is_ambiguous, "{what}: {found}");
    }
    let three = Server {
        resources: "nvidia.com/gpu=3 nvidia.com/t4=1",
        devices: &["g0 GPU nvidia:A100 0 -", "g1 GPU nvidia:T4 0 -", "g2 GPU nvidia:T4 0 -"],
    };
    assert!(of(&[three], &[a100s]).contains("Ambiguous"), "the sibling has one of two T4s");
    for network in ["hostdev=8", "sriov_rdma_vf=64", "nic=1", "vnic=1", "ib0=1"] {
        let resources = format!("nvidia.com/gpu=6 nvidia.com/{network}");
        let found = of(&[Server { resources: &resources, ..mixed() }], &[a100s]);
        assert!(found.contains("Ambiguous"), "network interfaces are no GPUs: {found}");
    }
    let partly = Server {
        resources: "nvidia.com/gpu=4 nvidia.com/a100=2",
        devices: &[
            "g0 GPU nvidia:A100 0 -",
            "g1 GPU nvidia:A100 0 -",
            "g2 GPU nvidia:L40S 0 -",
            "g3 GPU nvidia:L40S 0 -",
            "g4 GPU nvidia:T4 0 -",
            "g5 GPU nvidia:T4 0 -",
        ],
    };
    let l40s = "kind: gpu, devices: {model: L40S}, resource: {devicePlugin: nvidia.com/gpu}";
    let found = of(&[partly], &[l40s]);
    assert!(found.contains("Ambiguous"), "the A100s have a resource, the T4s have none: {found}");
    // display adapters and GPUs of another vendor are not behind NVIDIA's plugin
    let others = Server {
        resources: "nvidia.com/gpu=1",
        devices: &["g0 GPU nvidia:A100 0 -", "g1 GPU amd:Radeon 0 -"],
    };
    let found = of(&[others], &[GPUS]);
    assert!(!found.contains("pool ") && found.contains("n0/p0-0"), "{found}");
}

const PARTS: [&str; 4] = [
    "g0 GPU nvidia:A100 1 40000",
    "mig-a GPU_Partition<g0 nvidia:A100_MIG_3g.20gb 1 20000",
    "mig-b GPU_Partition<g0 nvidia:A100_MIG_1g.5gb 1 4900",
    "mig-c GPU_Partition<g0 nvidia:A100_MIG_1g.5gb 1 4900",
];

#[test]
fn partitions_of_one_profile_have_a_resource_and_their_gpu_is_no_unit() {
    let devices: Vec<&str> = PARTS.into_iter().chain(["g1 GPU nvidia:A100 0 40000"]).collect();
    let server = Server {
        resources: "nvidia.com/gpu=1 nvidia.com/mig-3g.20gb=1 nvidia.com/mig-1g.5gb=2",
        devices: &devices,
    };
    let small = "kind: gpu, resource: {devicePlugin: nvidia.com/mig-1g.5gb}";
    let large = "kind: gpu-partition, resource: {devicePlugin: nvidia.com/mig-3g.20gb}";
    insta::assert_snapshot!(of(&[server], &[GPUS, small, large]));
    let all = Server { resources: "nvidia.com/gpu=0 nvidia.com/mig-1g.5gb=2", devices: &PARTS };
    assert!(!of(&[all], &[GPUS]).contains("Degraded"), "a partitioned GPU is no fault");
    let shared = Server { resources: "nvidia.com/gpu=0 nvidia.com/mig-1g.5gb.shared=4", devices: &PARTS };
    let pool =
        "kind: gpu, sharing: {maxInstances: 2}, resource: {devicePlugin: nvidia.com/mig-1g.5gb.shared}";
    let found = of(&[shared], &[pool]);
    assert_eq!(found.matches("4900 MiB slots 2 ").count(), 2, "{found}");
    assert!(!found.contains("pool "), "{found}");
}

#[test]
fn gpus_of_amd_have_resources_of_their_modes() {
    let parts = |gpu: &str, count: usize, memory: usize| -> Vec<String> {
        let part = |nth| format!("{gpu}-{nth} GPU_Partition<{gpu} amd:MI300X 0 {memory}");
        (0..count).map(part).collect()
    };
    let parts = [parts("g1", 2, 96_000), parts("g2", 8, 24_000)].concat();
    let whole = ["g0 GPU amd:MI300X 0 192000", "g1 GPU amd:MI300X 0 192000", "g2 GPU amd:MI300X 0 192000"];
    let devices: Vec<&str> = whole.into_iter().chain(parts.iter().map(String::as_str)).collect();
    let resources = "amd.com/spx_nps1=1 amd.com/dpx_nps1=2 amd.com/cpx_nps4=8";
    for kind in ["gpu", "gpu-partition"] {
        let pool = |name: &str| format!("kind: {kind}, resource: {{devicePlugin: amd.com/{name}}}");
        let pools = ["spx_nps1", "dpx_nps1", "cpx_nps4"].map(pool);
        let pools = if kind == "gpu" { &pools[..] } else { &pools[1..] };
        let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
        let found = of(&[Server { resources, devices: &devices }], &pools);
        assert!(!found.contains("pool "), "{found}");
        let with = |memory: &str| found.matches(&format!(" {memory} MiB ")).count();
        let expected = (usize::from(kind == "gpu"), 2, 8);
        assert_eq!((with("192000"), with("96000"), with("24000")), expected, "{found}");
    }
    // a mode that no GPU of the node has
    let server = Server { resources: "amd.com/qpx_nps1=0 amd.com/cpx_nps4=8", devices: &devices };
    let found = of(&[server], &["kind: gpu, resource: {devicePlugin: amd.com/qpx_nps1}"]);
    assert!(!found.contains("n0/p0"), "{found}");
}

#[test]
fn each_driver_of_intel_has_a_resource() {
    let server = Server {
        resources: "gpu.intel.com/i915=1 gpu.intel.com/xe=1 gpu.intel.com/xe_monitoring=1",
        devices: &["g0 GPU@i915 intel:Flex 0 -", "g1 GPU@xe intel:Arc 0 -"],
    };
    let pools = ["i915", "xe"].map(|it| format!("kind: gpu, resource: {{devicePlugin: gpu.intel.com/{it}}}"));
    let found = of(&[server], &[&pools[0], &pools[1]]);
    let units: Vec<&str> = found.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(units, ["n0/p0-0", "n0/p1-0"], "{found}");
}

#[test]
fn partitions_that_are_offered_as_gpus_are_units_with_their_own_memory() {
    let parts: Vec<String> =
        (0..7).map(|nth| format!("mig-{nth} GPU_Partition<g0 nvidia:A100_MIG_1g.5gb 1 4900")).collect();
    let devices: Vec<&str> = [PARTS[0]].into_iter().chain(parts.iter().map(String::as_str)).collect();
    let server = |resources| Server { resources, devices: &devices };
    let found = of(&[server("nvidia.com/gpu=7")], &[GPUS]);
    insta::assert_snapshot!(found);
    assert_eq!(of(&[server("nvidia.com/gpu=7 @nvidia.com/mig.strategy=single")], &[GPUS]), found);
    let named = "kind: gpu, devices: {model: A100}, resource: {devicePlugin: nvidia.com/gpu}";
    assert_eq!(of(&[server("nvidia.com/gpu=7")], &[named]), found, "the model is that of the GPU");
}

#[test]
fn unused_replicas_of_shared_devices_are_reported() {
    let server =
        || Server { resources: "nvidia.com/gpu=20", devices: &["g0 GPU T4 0 16000", "g1 GPU T4 0 16000"] };
    insta::assert_snapshot!("not shared", of(&[server()], &[GPUS]));
    insta::assert_snapshot!(
        "shared by 4",
        of(&[server()], &[&format!("{GPUS}, sharing: {{maxInstances: 4}}")])
    );
    let all = of(&[server()], &[&format!("{GPUS}, sharing: {{maxInstances: 10}}")]);
    assert!(!all.contains("pool "), "{all}");
    let lost = Server {
        resources: "nvidia.com/gpu=12",
        devices: &["g0 GPU T4 0 -", "g1 GPU T4 0 -", "g2 GPU T4 0 -", "g3 GPU T4 0!lost -"],
    };
    let found = of(&[lost], &[&format!("{GPUS}, sharing: {{maxInstances: 2}}")]);
    let note = "the plugin offers 12 replicas of 3 devices; sharing.maxInstances 2 uses 6 of them; set it to 4 to use all";
    assert!(found.contains(note), "{found}");
}

/// The slots of each unit.
fn slots(found: &str) -> Vec<&str> {
    found.lines().filter_map(|line| line.split_once(" slots ")?.1.split(' ').next()).collect()
}

#[test]
fn units_share_what_other_pods_leave_of_a_resource() {
    let server = || Server {
        resources: "nvidia.com/gpu=16",
        devices: &["g0 GPU T4 0 -", "g1 GPU T4 0 -", "g2 GPU T4 0 -", "g3 GPU T4 0 -"],
    };
    let pod = |count: usize| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: x}}, spec: {{nodeName: n0, containers: [\
             {{name: c, resources: {{limits: {{nvidia.com/gpu: '{count}'}}}}}}]}}}}\n"
        )
    };
    let pool = format!("{GPUS}, sharing: {{maxInstances: 4}}");
    let one = beside(&[server()], &[&pool], &pod(1));
    assert_eq!(slots(&one), ["4", "4", "4", "3"], "{one}");
    assert!(!one.contains("pool "), "{one}");
    let five = beside(&[server()], &[&pool], &pod(5));
    assert_eq!(slots(&five), ["4", "4", "3"], "{five}");
    assert!(five.contains("Degraded: n0: 4 devices, 4 healthy, 3 available"), "{five}");
}

#[test]
fn no_more_actors_share_a_device_than_it_has_replicas() {
    let server = |resources| Server { resources, devices: &["g0 GPU T4 0 -", "g1 GPU T4 0 -"] };
    for (resources, most, replicas) in [("nvidia.com/gpu=2", 4, "1"), ("nvidia.com/gpu=8", 8, "4")] {
        let found = of(&[server(resources)], &[&format!("{GPUS}, sharing: {{maxInstances: {most}}}")]);
        assert_eq!(slots(&found), [replicas; 2], "{found}");
        let note = format!(
            "pool p0 note MissingReplicas: n0: the plugin offers {replicas} of nvidia.com/gpu per device, and sharing.maxInstances is {most};"
        );
        assert!(found.contains(&note) && found.matches("pool ").count() == 1, "{found}");
    }
}

#[test]
fn a_pool_without_units_names_the_devices_that_it_does_not_select() {
    let server = || Server {
        resources: "nvidia.com/gpu=2 furiosa.ai/rngd=1",
        devices: &[
            "g0 GPU nvidia:A100 0 -",
            "g1 GPU nvidia:A100 0 -",
            "a0 Accelerator furiosa:RNGD 0 -",
            "numa-0 NUMA_Domain - 0 -",
        ],
    };
    let typo =
        "kind: gpu, devices: {vendor: nvidia, model: 'H100*'}, resource: {devicePlugin: nvidia.com/gpu}";
    let unnamed = "kind: npu, resource: {devicePlugin: furiosa.ai/rngd}";
    let found = of(&[server()], &[typo, unnamed]);
    let has = "it has 1 Accelerator furiosa RNGD, 2 GPU nvidia A100";
    let expected = format!(
        "pool p0 note NoMatchingDevice: n0 offers nvidia.com/gpu, but the pool selects none of its devices: {has}, and the pool \
         wants kind gpu, vendor nvidia, model H100*\n\
         pool p0 not ready: Empty\n\
         pool p1 note NoMatchingDevice: n0 offers furiosa.ai/rngd, but the pool selects none of its devices: {has}, and the pool \
         wants kind npu; a pool of devices of type Accelerator names their vendor or model\n\
         pool p1 not ready: Empty"
    );
    assert_eq!(found, expected);
    let own_kind = of(&[server()], &["kind: ml, resource: {devicePlugin: nvidia.com/gpu}"]);
    assert!(
        own_kind.contains("wants kind ml; set spec.kind to gpu, the kind of these devices"),
        "{own_kind}"
    );
    let nowhere = "kind: gpu, nodeSelector: {matchLabels: {x: y}}, resource: {devicePlugin: nvidia.com/gpu}";
    let note = "pool p0 note NoMatchingDevice: no node has the labels of spec.nodeSelector: x=y; correct it, or label the nodes";
    let found = of(&[server()], &[nowhere]);
    assert!(found.contains(note), "{found}");
    let other = Server { resources: "nvidia.com/gpu=1", devices: &["g0 GPU nvidia:H100 0 -"] };
    let found = of(&[server(), other], &[typo]);
    assert!(!found.contains("pool ") && found.starts_with("n1/p0-0"), "{found}");
}

#[test]
fn nodes_without_devices_do_not_affect_a_pool() {
    let plain = Server { resources: "", devices: &["numa-0 NUMA_Domain - 0 -"] };
    let gpus = Server { resources: "nvidia.com/gpu=1", devices: &["g0 GPU T4 0 16000"] };
    let found = of(&[plain, gpus], &[GPUS]);
    assert!(!found.contains("pool ") && found.starts_with("n1/p0-0"), "{found}");
}

#[test]
fn an_accelerator_of_unknown_kind_belongs_to_a_pool_that_names_it() {
    let server = || Server {
        resources: "amd.com/gpu=2",
        devices: &["a0 Accelerator amd:MI325X 0 -", "a1 Accelerator amd:MI325X 0 -"],
    };
    let named =
        of(&[server()], &["kind: gpu, devices: {vendor: amd}, resource: {devicePlugin: amd.com/gpu}"]);
    assert_eq!(named.lines().count(), 2, "{named}");
    let unnamed = of(&[server()], &["kind: gpu, resource: {devicePlugin: amd.com/gpu}"]);
    assert!(!unnamed.contains("n0/p0"), "{unnamed}");
}

/// The domains of a board with four dies, of which two have memory.
fn dies(resources: &str, domains: &[i32]) -> String {
    let domain = |numa: &i32| {
        let memory = if numa % 2 == 0 {
            "memorySpaces: [{type: RAM, sizeBytes: 1073741824}]"
        } else {
            "nearestMemory: numa-0"
        };
        format!(
            "{{id: numa-{numa}, type: NUMA Domain, numaNode: {numa}, {memory}, computeResources: [{{type: Core, count: 1}}, {{type: Processing Unit, count: 2}}]}}"
        )
    };
    let devices: Vec<_> = domains.iter().map(domain).collect();
    let mut amounts = String::new();
    for numa in resources.split(' ') {
        write!(amounts, "cairn.dev/numa-{numa}: '9', ").unwrap();
    }
    let yaml = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: n0}}, status: {{allocatable: {{cpu: '8', memory: 8Gi, pods: '110', {amounts}}}}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: n0}}, spec: {{devices: [{}]}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: dies}}, spec: {{kind: cpu, unit: NumaDomain, utilizationTarget: '1', resource: {{devicePlugin: 'cairn.dev/numa-{{index}}'}}}}}}\n---\n\
         {{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app, namespace: ns}}, spec: {{actors: [{{name: a, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{spec: {{containers: [{{name: c}}]}}}}}}]}}]}}}}",
        devices.join(", ")
    );
    let lines = shown(&yaml);
    let units = lines.lines().filter(|line| line.starts_with("unit") || line.starts_with("pool"));
    units.collect::<Vec<_>>().join("\n")
}

#[test]
fn dies_without_memory_are_units_with_their_own_cores() {
    let all = dies("0 1 2 3", &[0, 1, 2, 3]);
    insta::assert_snapshot!(all);
    // an old agent does not report them: their number and share follow from what the kubelet offers
    insta::assert_snapshot!("unreported", dies("0 1 2 3", &[0, 2]));
    insta::assert_snapshot!("neither reported nor offered", dies("0 2", &[0, 2]));
}

#[test]
fn domains_share_the_cpus_by_the_capacity_of_their_cores() {
    let yaml = |kinds: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: n0}}, status: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '110', cairn.dev/numa-0: '1', cairn.dev/numa-1: '1'}}}}}}\n---\n\
             {{apiVersion: cairn.dev/v1alpha1, kind: NodeTopology, metadata: {{name: n0}}, spec: {{devices: [\
             {{id: numa-0, type: NUMA Domain, numaNode: 0, computeResources: [{{type: Core, count: 2{kinds}}}]}},\
             {{id: numa-1, type: NUMA Domain, numaNode: 1, computeResources: [{{type: Core, count: 2}}]}}]}}}}\n---\n\
             {{apiVersion: cairn.dev/v1alpha1, kind: DevicePool, metadata: {{name: p}}, spec: {{kind: cpu, unit: NumaDomain, resource: {{devicePlugin: 'cairn.dev/numa-{{index}}'}}}}}}\n---\n\
             {{apiVersion: cairn.dev/v1alpha1, kind: ActorApplication, metadata: {{name: app, namespace: ns}}, spec: {{actors: [{{name: a, implementations: [{{kind: cpu, serviceTime: 1ms, template: {{spec: {{containers: [{{name: c}}]}}}}}}]}}]}}}}"
        )
    };
    let capacities = |kinds: &str| -> Vec<u64> {
        let lines = shown(&yaml(kinds));
        let units = lines.lines().filter(|line| line.starts_with("unit"));
        units.map(|line| line.split(' ').nth(2).unwrap().parse().unwrap()).collect()
    };
    let equal = capacities("");
    assert_eq!(equal[0], equal[1]);
    let slower = capacities(", kinds: [{count: 2, relativeCapacity: 512}]");
    assert_eq!((slower[0] * 2, slower[0] + slower[1]), (slower[1], equal[0] + equal[1]));
}
