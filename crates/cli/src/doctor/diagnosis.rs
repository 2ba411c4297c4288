//! Derives findings from the state of an installation. A pure function; the time is an argument.

use std::collections::{BTreeMap, BTreeSet};

use crds::Health;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PodSpec};
use kube::ResourceExt;
use policy::Program;
use world::{ApplicationKey, Index, Policy};

use super::findings::{AGENT, AGENT_PODS, Finding, InstallationState, Level, OPERATOR};

/// The admission policies of the chart.
const ADMISSION: [&str; 7] = [
    "cairn-agents",
    "cairn-claims",
    "cairn-decisions",
    "cairn-owners",
    "cairn-peers",
    "cairn-pods",
    "cairn-requests",
];
/// The annotation by which Helm marks the objects of a release.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// The most names that a message lists.
const MAX_LISTED: usize = 5;

/// The findings of all components.
pub fn diagnose(state: &InstallationState, default_policy: &str, now: Timestamp) -> Vec<Finding> {
    let mut findings: Vec<Finding> = kinds(state).into_iter().collect();
    findings.push(operator(state, now));
    findings.extend(workloads(state));
    findings.extend(nodes(state));
    findings.extend(agents(state, now));
    findings.extend(devices(state));
    findings.extend(without_library(state));
    findings.extend(dynamic_allocation(state));
    findings.extend(pools(state, default_policy));
    findings.extend(policies(state, default_policy));
    findings.push(permissions(state));
    findings.push(admission(state));
    findings
}

fn finding(area: &'static str, level: Level, text: impl Into<String>, to_do: Option<&str>) -> Finding {
    Finding { area, level, text: text.into(), to_do: to_do.map(str::to_owned) }
}

fn unknown(area: &'static str, why: &str) -> Finding {
    finding(area, Level::Unknown, format!("not checked: {why}"), None)
}

/// Whether Cairn's CRDs are installed.
fn kinds(state: &InstallationState) -> Option<Finding> {
    let kinds = ["actorapplications", "placements", "instances", "devicepools", "nodetopologies"];
    let missing: Vec<&str> = (kinds.into_iter())
        .filter(|kind| state.accessible.inaccessible.get(*kind).is_some_and(|kind| kind.is_unknown))
        .collect();
    let to_do = format!("run {}", helm_upgrade(state));
    let text = format!("CustomResourceDefinitions are missing: {}", missing.join(", "));
    (!missing.is_empty()).then(|| finding("kinds", Level::Error, text, Some(&to_do)))
}

/// The command that upgrades the release and keeps its values, image names among them, beside new defaults of the chart.
/// Without operator and agents there may be no release: it then installs one, which needs the names of the images.
fn helm_upgrade(state: &InstallationState) -> String {
    let kept = format!("charts/cairn -n {} --reset-then-reuse-values", state.namespace);
    match release(state) {
        Some(release) => format!("helm upgrade --install {release} {kept}"),
        None => format!(
            "helm upgrade --install cairn {kept} --create-namespace \
             --set operator.image.repository=IMAGE,agent.image.repository=IMAGE"
        ),
    }
}

/// The release that installed the operator or the agents, as Helm records it; `cairn` for objects of other tools.
fn release(state: &InstallationState) -> Option<&str> {
    let of_operator = state.operator.iter().flatten().map(|it| &it.metadata);
    let of_agents = state.agent.iter().flatten().map(|it| &it.metadata);
    let annotations = of_operator.chain(of_agents).filter_map(|metadata| metadata.annotations.as_ref());
    let mut names = annotations.filter_map(|annotations| annotations.get(RELEASE_NAME));
    let is_absent = matches!(state.operator, Ok(None)) && state.agent.as_ref().is_ok_and(Vec::is_empty);
    names.next().map(String::as_str).or_else(|| (!is_absent).then_some("cairn"))
}

/// The tag of a program's image.
fn version(spec: Option<&PodSpec>) -> Option<String> {
    let image = spec?.containers.first()?.image.as_deref()?;
    let (_, tag) = image.rsplit_once(':')?;
    (!tag.contains('/')).then(|| tag.to_owned())
}

/// Whether operator and agents have all replicas ready and the same version.
fn workloads(state: &InstallationState) -> Vec<Finding> {
    let operator = state.operator.as_ref().ok().and_then(Option::as_ref);
    let agents = state.agent.as_deref().unwrap_or_default();
    let mut findings = Vec::new();
    let mut check_replicas = |area, what: &str, ready: i32, wanted: i32, workload: &str| {
        let to_do = format!("run kubectl describe {workload} -n {}, and describe its pods", state.namespace);
        if ready < wanted {
            let text = format!("{ready} of {wanted} {what} are ready");
            findings.push(finding(area, Level::Warning, text, Some(&to_do)));
        }
    };
    if let Some(operator) = operator {
        let wanted = operator.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let ready = operator.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        check_replicas("operator", "operators", ready, wanted, &format!("deployment {OPERATOR}"));
    }
    for agent in agents {
        let Some(status) = &agent.status else { continue };
        let (ready, wanted) = (status.number_ready, status.desired_number_scheduled);
        check_replicas("agents", "agents", ready, wanted, &format!("daemonset {}", agent.name_any()));
    }
    let of_operator = operator.and_then(|it| version(it.spec.as_ref()?.template.spec.as_ref()));
    let of_agent = agents.first().and_then(|it| version(it.spec.as_ref()?.template.spec.as_ref()));
    if let (Some(operator), Some(agent)) = (of_operator, of_agent)
        && operator != agent
    {
        let text = format!("the operator has version {operator}, the agents have version {agent}");
        let to_do = format!(
            "complete the upgrade, or set both image tags to one version: {} --set operator.image.tag=VERSION,agent.image.tag=VERSION",
            helm_upgrade(state)
        );
        findings.push(finding("versions", Level::Warning, text, Some(&to_do)));
    }
    findings
}

/// Unreachable nodes. Their actors stay; above a threshold, all failovers are suspended.
fn nodes(state: &InstallationState) -> Option<Finding> {
    let area = "nodes";
    if let Some(why) = state.accessible.first_error(&["nodes"]) {
        return Some(unknown(area, &why));
    }
    let nodes = &state.accessible.objects.nodes;
    let is_unreachable = |node: &Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|it| it.type_ == "Ready" && it.status != "True")
    };
    let unreachable: Vec<String> =
        nodes.iter().filter(|node| is_unreachable(node)).map(|node| node.name_any()).collect();
    let many = Index::of(&state.accessible.objects).is_mass_outage();
    let rest = if many { "; failovers are suspended while so many are unreachable" } else { "" };
    let (count, all) = (unreachable.len(), nodes.len());
    let text = format!("{count} of {all} are unreachable: {}{rest}", listed(&unreachable));
    let to_do = "run kubectl describe node NODE; if a node does not recover, delete it or add the taint \
                 node.kubernetes.io/out-of-service=off:NoExecute";
    (!unreachable.is_empty()).then(|| finding(area, Level::Warning, text, Some(to_do)))
}

/// The first names, and the number of further ones.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The age of a Lease in seconds, and whether it has expired.
fn age(lease: &Lease, now: Timestamp) -> Option<(i64, bool)> {
    let spec = lease.spec.as_ref()?;
    let age = now.as_second() - spec.renew_time.as_ref()?.0.as_second();
    Some((age, age > i64::from(spec.lease_duration_seconds.unwrap_or(60))))
}

fn operator(state: &InstallationState, now: Timestamp) -> Finding {
    let area = "operator";
    let namespace = &state.namespace;
    let logs =
        format!("run kubectl describe deployment {OPERATOR} -n {namespace}, and check the logs of its pods");
    match &state.operator {
        Err(why) => return unknown(area, why),
        Ok(None) => {
            let to_do = format!("set --operator-namespace, or run {}", helm_upgrade(state));
            return finding(
                area,
                Level::Error,
                format!("the Deployment {OPERATOR} does not exist"),
                Some(&to_do),
            );
        }
        Ok(Some(_)) => {}
    }
    let lease = match &state.leader {
        Err(why) => return unknown(area, why),
        Ok(lease) => lease.as_ref(),
    };
    let held = lease.and_then(|lease| {
        let holder = lease.spec.as_ref()?.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        Some((holder, age(lease, now)?))
    });
    match held {
        Some((holder, (age, false))) => {
            finding(area, Level::Ok, format!("{holder} is the leader, lease renewed {age} s ago"), None)
        }
        Some((holder, (age, true))) => {
            let text = format!("there is no leader: the lease of {holder} was renewed {age} s ago");
            finding(area, Level::Error, text, Some(&logs))
        }
        None => finding(area, Level::Error, "there is no leader: the lease has no holder", Some(&logs)),
    }
}

/// Whether agents are enabled: the chart then sets the operator's flag `--agent-namespace`. True if there is no operator.
fn are_agents_enabled(state: &InstallationState) -> bool {
    let Ok(Some(operator)) = &state.operator else { return true };
    let pod = operator.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.iter().flat_map(|pod| &pod.containers);
    let mut flags = containers.flat_map(|container| container.args.iter().flatten());
    flags.any(|flag| flag.starts_with("--agent-namespace"))
}

fn agents(state: &InstallationState, now: Timestamp) -> Vec<Finding> {
    let area = "agents";
    let mut findings = Vec::new();
    if state.agent.as_ref().is_ok_and(Vec::is_empty) {
        if !are_agents_enabled(state) {
            let text = "disabled (agent.install=false)";
            return vec![finding(area, Level::Ok, text, None)];
        }
        let text = format!("the DaemonSet {AGENT} does not exist");
        let to_do = format!("run {}", helm_upgrade(state));
        findings.push(finding(area, Level::Error, text, Some(&to_do)));
    }
    if let Some(why) = state.accessible.first_error(&["nodes", "nodetopologies"]) {
        findings.push(unknown(area, &why));
        return findings;
    }
    let objects = &state.accessible.objects;
    let nodes: BTreeSet<String> = objects.nodes.iter().map(|node| node.name_any()).collect();
    let described: BTreeSet<String> = objects.topologies.iter().map(|it| it.name_any()).collect();
    let without: Vec<String> = nodes.difference(&described).cloned().collect();
    if !without.is_empty() {
        let text = format!("nodes without a NodeTopology: {}", listed(&without));
        let to_do = "check whether an agent runs there; without one, only pools of whole nodes have units";
        findings.push(finding(area, Level::Warning, text, Some(to_do)));
    }
    let leases = match &state.agents {
        Err(why) => {
            findings.push(unknown(area, why));
            return findings;
        }
        Ok(leases) => leases,
    };
    let ages: BTreeMap<String, Option<(i64, bool)>> = (leases.iter())
        .filter_map(|lease| {
            Some((lease.name_any().strip_prefix("cairn-agent-")?.to_owned(), age(lease, now)))
        })
        .collect();
    let is_expired = |node: &&String| !matches!(ages.get(*node), Some(Some((_, false))));
    let expired: Vec<String> = described.intersection(&nodes).filter(is_expired).cloned().collect();
    if !expired.is_empty() {
        let text = format!("the lease expired on {}", listed(&expired));
        let to_do = format!(
            "run kubectl get pods -n {} -l {AGENT_PODS} -o wide, and check their logs",
            state.namespace
        );
        findings.push(finding(area, Level::Error, text, Some(&to_do)));
    }
    let alive = described.intersection(&nodes).count() - expired.len();
    if alive > 0 {
        findings.push(finding(area, Level::Ok, format!("{alive} of {} nodes report", nodes.len()), None));
    }
    findings
}

fn devices(state: &InstallationState) -> Vec<Finding> {
    let mut findings = Vec::new();
    for topology in &state.accessible.objects.topologies {
        let unhealthy = topology.spec.devices.iter().filter(|device| device.health != Health::Ok);
        let unhealthy: Vec<String> = unhealthy
            .filter(|device| !is_without_library(device))
            .map(|device| format!("{} {}", device.id, device.health))
            .collect();
        if !unhealthy.is_empty() {
            let text = format!("{}: {}", topology.name_any(), listed(&unhealthy));
            let to_do = format!(
                "run kubectl cairn topology {}, and check the driver and log of the node",
                topology.name_any()
            );
            findings.push(finding("devices", Level::Warning, text, Some(&to_do)));
        }
    }
    findings
}

/// Whether a device is a GPU of NVIDIA of which no driver's library reports anything: only its place on the bus is known.
fn is_without_library(device: &crds::Device) -> bool {
    device.type_ == "GPU"
        && device.vendor.as_deref() == Some("nvidia")
        && device.health == Health::Unknown
        && device.driver.is_none()
}

/// GPUs whose agent lacks the library of their driver.
fn without_library(state: &InstallationState) -> Option<Finding> {
    let mut count = 0;
    let mut nodes = Vec::new();
    for topology in &state.accessible.objects.topologies {
        let bare = topology.spec.devices.iter().filter(|device| is_without_library(device)).count();
        if bare > 0 {
            count += bare;
            nodes.push(topology.name_any());
        }
    }
    let gpus = if count == 1 { "GPU" } else { "GPUs" };
    let text = format!("agents lack the NVIDIA driver library for {count} {gpus}: {}", listed(&nodes));
    let to_do = "run the agents of these nodes with the runtime class of the driver: a group in agent.groups of the chart with \
                 runtimeClassName nvidia (docs/tasks/set-up-accelerators.md)";
    (count > 0).then(|| finding("devices", Level::Warning, text, Some(to_do)))
}

/// What of dynamic resource allocation the cluster has.
fn dynamic_allocation(state: &InstallationState) -> Option<Finding> {
    let area = "claims";
    if let Some(why) = state.accessible.first_error(&["resourceslices", "deviceclasses", "resourceclaims"]) {
        return Some(unknown(area, &why));
    }
    let found = Index::of(&state.accessible.objects).dra_summary();
    if !found.is_served {
        let text =
            "the cluster has no dynamic resource allocation (resource.k8s.io/v1): pools need device plugins";
        return Some(finding(area, Level::Ok, text, None));
    }
    let drivers: Vec<String> = found
        .drivers
        .iter()
        .map(|(driver, (devices, nodes))| format!("{driver}: {devices} devices on {nodes} nodes"))
        .collect();
    if drivers.is_empty() && found.classes == 0 {
        return None;
    }
    let drivers = if drivers.is_empty() { "no ResourceSlices".to_owned() } else { listed(&drivers) };
    Some(finding(area, Level::Ok, format!("{} DeviceClasses; {drivers}", found.classes), None))
}

fn pools(state: &InstallationState, default_policy: &str) -> Vec<Finding> {
    let area = "pools";
    let objects = &state.accessible.objects;
    if let Some(why) = state.accessible.first_error(&["nodes", "pods", "nodetopologies", "devicepools"]) {
        return vec![unknown(area, &why)];
    }
    let mut findings = Vec::new();
    if objects.pools.is_empty() && !objects.applications.is_empty() {
        let to_do = "create a DevicePool for each kind of device, as in examples/pools.yaml";
        findings.push(finding(area, Level::Error, "there are no pools: no actor can be placed", Some(to_do)));
    }
    for (pool, (report, allocated)) in world::pools(&Index::of(objects), &Policy::builtin(default_policy)) {
        let counts =
            format!("{pool}: {} units, {} healthy, {allocated} allocated", report.units, report.healthy);
        if report.units == 0 && report.problems.is_empty() {
            let to_do = "compare its nodeSelector and devices with kubectl cairn topology NODE";
            findings.push(finding(area, Level::Warning, counts.clone(), Some(to_do)));
        } else if report.problems.is_empty() {
            findings.push(finding(area, Level::Ok, counts.clone(), None));
        }
        for (type_, problem) in &report.problems {
            let text = format!("{counts}; {type_}: {problem}");
            findings.push(finding(
                area,
                Level::Warning,
                text,
                Some(&format!("run kubectl describe devicepool {pool}")),
            ));
        }
        let level = if report.units == 0 { Level::Warning } else { Level::Ok };
        let notes = report.notes.iter().map(|(type_, note)| format!("{pool}: {type_}: {note}"));
        findings.extend(notes.map(|text| finding(area, level, text, None)));
    }
    let offered: BTreeSet<&str> = objects.pools.iter().map(|pool| pool.spec.kind.as_str()).collect();
    for application in &objects.applications {
        let without_pool = |group: &crds::ActorGroup| {
            let kinds: Vec<String> = group.implementations.iter().map(|it| it.kind.clone()).collect();
            (!kinds.iter().any(|kind| offered.contains(kind.as_str()))).then(|| (group.name.clone(), kinds))
        };
        for (group, kinds) in application.spec.actors.iter().filter_map(without_pool) {
            let text = format!(
                "{}: no pool has a kind that {group} runs on ({})",
                ApplicationKey::of(application),
                kinds.join(", ")
            );
            findings.push(finding(
                area,
                Level::Error,
                text,
                Some("create a DevicePool of this kind, or add an implementation"),
            ));
        }
    }
    findings
}

fn policies(state: &InstallationState, default_policy: &str) -> Vec<Finding> {
    let area = "policies";
    let objects = &state.accessible.objects;
    if let Some(why) = state.accessible.first_error(&["configmaps"]) {
        return vec![unknown(area, &why)];
    }
    let mut findings = Vec::new();
    let mut valid = Vec::new();
    for config_map in &objects.policies {
        let name = config_map.name_any();
        let problem = match Policy::read(config_map) {
            Err(error) => Some(error.to_string()),
            Ok(policy) => policy.program.and_then(|text| match Program::parse(&text) {
                Err(faults) => Some(format!(
                    "policy {name}: program.lp {}",
                    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                )),
                Ok(_) => None,
            }),
        };
        match problem {
            Some(problem) => findings.push(finding(
                area,
                Level::Error,
                problem,
                Some("correct it and validate it with kubectl cairn check-policy"),
            )),
            None => valid.push(name),
        }
    }
    let known: BTreeSet<String> = objects.policies.iter().map(|policy| policy.name_any()).collect();
    let used = objects
        .applications
        .iter()
        .map(|it| (ApplicationKey::of(it), it.spec.policy.as_deref().unwrap_or(default_policy)));
    for (application, name) in used.filter(|(_, name)| !known.contains(*name)) {
        let text = format!("{application}: policy {name} does not exist");
        findings.push(finding(
            area,
            Level::Error,
            text,
            Some("use an existing policy, or create it in the operator's namespace"),
        ));
    }
    if !valid.is_empty() {
        valid.sort_unstable();
        findings.push(finding(area, Level::Ok, listed(&valid), None));
    } else if findings.is_empty() {
        let to_do = "create those in policies/, or set --operator-namespace";
        findings.push(finding(area, Level::Warning, "there are no policies", Some(to_do)));
    }
    findings
}

fn permissions(state: &InstallationState) -> Finding {
    match &state.missing_permissions {
        Err(why) => unknown("rights", why),
        Ok(missing) if missing.is_empty() => {
            finding("rights", Level::Ok, "operator and agents have all required permissions", None)
        }
        Ok(missing) => {
            let text = format!("missing permissions: {}", listed(missing));
            let to_do = format!("restore the roles with {}", helm_upgrade(state));
            finding("rights", Level::Error, text, Some(&to_do))
        }
    }
}

fn admission(state: &InstallationState) -> Finding {
    let area = "admission";
    let (installed, bound) = match (&state.admission, &state.bound) {
        (Err(why), _) | (_, Err(why)) => return unknown(area, why),
        (Ok(installed), Ok(bound)) => (installed, bound),
    };
    let absent_from = |list: &Vec<String>| -> Vec<String> {
        let missing = ADMISSION.iter().filter(|name| !list.iter().any(|it| it == *name));
        missing.map(|name| (*name).to_owned()).collect()
    };
    let (missing, unbound) = (absent_from(installed), absent_from(bound));
    if missing.is_empty() && unbound.is_empty() {
        return finding(area, Level::Ok, "admission policies are enforced", None);
    }
    let text = if missing.is_empty() {
        format!("admission policies without a binding with action Deny: {}", unbound.join(", "))
    } else {
        format!("missing admission policies: {}", missing.join(", "))
    };
    let to_do = format!("run {} --set admissionPolicies.install=true", helm_upgrade(state));
    finding(area, Level::Warning, text, Some(&to_do))
}

#[cfg(test)]
mod tests;
