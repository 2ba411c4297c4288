//! What is well and what is wrong, from what was found. Pure: the time is given.

use std::collections::{BTreeMap, BTreeSet};

use crds::Health;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PodSpec};
use kube::ResourceExt;
use policy::Program;
use world::{ApplicationKey, Index, Policy};

use super::found::{AGENT, AGENT_PODS, Finding, Found, Level, OPERATOR};

/// The admission policies that the chart brings.
const ADMISSION: [&str; 6] =
    ["cairn-agents", "cairn-decisions", "cairn-owners", "cairn-peers", "cairn-pods", "cairn-requests"];
/// How many names a sentence lists.
const LISTED: usize = 5;

/// How everything is, part by part.
pub fn diagnose(found: &Found, default_policy: &str, now: Timestamp) -> Vec<Finding> {
    let mut findings: Vec<Finding> = kinds(found).into_iter().collect();
    findings.push(operator(found, now));
    findings.extend(programs(found));
    findings.extend(nodes(found));
    findings.extend(agents(found, now));
    findings.extend(devices(found));
    findings.extend(pools(found, default_policy));
    findings.extend(policies(found, default_policy));
    findings.push(rights(found));
    findings.push(admission(found));
    findings
}

fn finding(area: &'static str, level: Level, text: impl Into<String>, to_do: Option<&str>) -> Finding {
    Finding { area, level, text: text.into(), to_do: to_do.map(str::to_owned) }
}

fn unknown(area: &'static str, why: &str) -> Finding {
    finding(area, Level::Unknown, format!("could not be looked at: {why}"), None)
}

/// Whether there are Cairn's kinds at all.
fn kinds(found: &Found) -> Option<Finding> {
    let kinds = ["actorapplications", "placements", "instances", "devicepools", "nodetopologies"];
    let missing: Vec<&str> = (kinds.into_iter())
        .filter(|kind| found.visible.hidden.get(*kind).is_some_and(|hidden| hidden.is_unknown))
        .collect();
    let to_do = format!("helm install cairn charts/cairn -n {} --create-namespace", found.namespace);
    let text = format!("the cluster has no {}: Cairn is not installed, or half of it", missing.join(", "));
    (!missing.is_empty()).then(|| finding("kinds", Level::Wrong, text, Some(&to_do)))
}

/// The tag of a program's image.
fn version(spec: Option<&PodSpec>) -> Option<String> {
    let image = spec?.containers.first()?.image.as_deref()?;
    let (_, tag) = image.rsplit_once(':')?;
    (!tag.contains('/')).then(|| tag.to_owned())
}

/// Whether there are as many of both programs as there are to be, and all of one version.
fn programs(found: &Found) -> Vec<Finding> {
    let operator = found.operator.as_ref().ok().and_then(Option::as_ref);
    let agent = found.agent.as_ref().ok().and_then(Option::as_ref);
    let mut findings = Vec::new();
    let mut few = |area, what: &str, ready: i32, wanted: i32, workload: &str| {
        let to_do = format!("kubectl describe {workload} -n {}, and the pods of it", found.namespace);
        if ready < wanted {
            let text = format!("{ready} of {wanted} {what} are ready");
            findings.push(finding(area, Level::Warning, text, Some(&to_do)));
        }
    };
    if let Some(operator) = operator {
        let wanted = operator.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let ready = operator.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        few("operator", "operators", ready, wanted, &format!("deployment {OPERATOR}"));
    }
    if let Some(status) = agent.and_then(|agent| agent.status.as_ref()) {
        let (ready, wanted) = (status.number_ready, status.desired_number_scheduled);
        few("agents", "agents", ready, wanted, &format!("daemonset {AGENT}"));
    }
    let of_operator = operator.and_then(|it| version(it.spec.as_ref()?.template.spec.as_ref()));
    let of_agent = agent.and_then(|it| version(it.spec.as_ref()?.template.spec.as_ref()));
    if let (Some(operator), Some(agent)) = (of_operator, of_agent)
        && operator != agent
    {
        let text = format!("the operator is {operator}, the agents are {agent}");
        let to_do = format!(
            "an upgrade stopped half way, or one image is set by hand: helm upgrade cairn charts/cairn -n {}",
            found.namespace
        );
        findings.push(finding("versions", Level::Warning, text, Some(&to_do)));
    }
    findings
}

/// Nodes that do not answer: who is there is waited for, and of many silent ones nobody moves.
fn nodes(found: &Found) -> Option<Finding> {
    let area = "nodes";
    if let Some(why) = found.visible.without(&["nodes"]) {
        return Some(unknown(area, &why));
    }
    let nodes = &found.visible.objects.nodes;
    let is_silent = |node: &Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|it| it.type_ == "Ready" && it.status != "True")
    };
    let silent: Vec<String> =
        nodes.iter().filter(|node| is_silent(node)).map(|node| node.name_any()).collect();
    let many = Index::of(&found.visible.objects).is_silent();
    let rest = if many { "; while there are so many nobody moves" } else { "" };
    let text = format!("{} of {} do not answer: {}{rest}", silent.len(), nodes.len(), listed(&silent));
    let to_do = "kubectl describe node NODE; one that does not come back is to be deleted, or tainted \
                 node.kubernetes.io/out-of-service=off:NoExecute";
    (!silent.is_empty()).then(|| finding(area, Level::Warning, text, Some(to_do)))
}

/// The first few names, and how many more.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// How long ago a Lease was renewed, in seconds, and whether that is longer than it lasts.
fn age(lease: &Lease, now: Timestamp) -> Option<(i64, bool)> {
    let spec = lease.spec.as_ref()?;
    let age = now.as_second() - spec.renew_time.as_ref()?.0.as_second();
    Some((age, age > i64::from(spec.lease_duration_seconds.unwrap_or(60))))
}

fn operator(found: &Found, now: Timestamp) -> Finding {
    let area = "operator";
    let namespace = &found.namespace;
    let logs = format!("kubectl describe deployment {OPERATOR} -n {namespace}, and the logs of its pods");
    match &found.operator {
        Err(why) => return unknown(area, why),
        Ok(None) => {
            let to_do = format!(
                "helm install cairn charts/cairn -n {namespace}, or say where it is with --operator-namespace"
            );
            return finding(area, Level::Wrong, format!("there is no Deployment {OPERATOR}"), Some(&to_do));
        }
        Ok(Some(_)) => {}
    }
    let lease = match &found.leader {
        Err(why) => return unknown(area, why),
        Ok(lease) => lease.as_ref(),
    };
    let held = lease.and_then(|lease| {
        let holder = lease.spec.as_ref()?.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        Some((holder, age(lease, now)?))
    });
    match held {
        Some((holder, (age, false))) => {
            finding(area, Level::Well, format!("{holder} leads, renewed {age} s ago"), None)
        }
        Some((holder, (age, true))) => {
            let text = format!("nobody leads: {holder} renewed its lease {age} s ago");
            finding(area, Level::Wrong, text, Some(&logs))
        }
        None => finding(area, Level::Wrong, "nobody leads: the lease has no holder", Some(&logs)),
    }
}

/// Whether there are to be agents: the chart tells the operator where their Leases are, then. Where there is no operator that could
/// be looked at, they are.
fn are_agents_meant(found: &Found) -> bool {
    let Ok(Some(operator)) = &found.operator else { return true };
    let pod = operator.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.iter().flat_map(|pod| &pod.containers);
    let mut arguments = containers.flat_map(|container| container.args.iter().flatten());
    arguments.any(|argument| argument.starts_with("--agent-namespace"))
}

fn agents(found: &Found, now: Timestamp) -> Vec<Finding> {
    let area = "agents";
    let mut findings = Vec::new();
    if let Ok(None) = &found.agent {
        if !are_agents_meant(found) {
            let text = "none are meant to be there (agent.install=false)";
            return vec![finding(area, Level::Well, text, None)];
        }
        let text = format!("there is no DaemonSet {AGENT}");
        let to_do = format!("helm upgrade --install cairn charts/cairn -n {}", found.namespace);
        findings.push(finding(area, Level::Wrong, text, Some(&to_do)));
    }
    if let Some(why) = found.visible.without(&["nodes", "nodetopologies"]) {
        findings.push(unknown(area, &why));
        return findings;
    }
    let objects = &found.visible.objects;
    let nodes: BTreeSet<String> = objects.nodes.iter().map(|node| node.name_any()).collect();
    let described: BTreeSet<String> = objects.topologies.iter().map(|it| it.name_any()).collect();
    let without: Vec<String> = nodes.difference(&described).cloned().collect();
    if !without.is_empty() {
        let text = format!("no topology of {}", listed(&without));
        let to_do = "see whether an agent runs there; without one, only pools of whole nodes have units";
        findings.push(finding(area, Level::Warning, text, Some(to_do)));
    }
    let leases = match &found.agents {
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
    let is_silent = |node: &&String| !matches!(ages.get(*node), Some(Some((_, false))));
    let silent: Vec<String> = described.intersection(&nodes).filter(is_silent).cloned().collect();
    if !silent.is_empty() {
        let text = format!("silent for longer than their lease: {}", listed(&silent));
        let to_do =
            format!("kubectl get pods -n {} -l {AGENT_PODS} -o wide, and their logs", found.namespace);
        findings.push(finding(area, Level::Wrong, text, Some(&to_do)));
    }
    let alive = described.intersection(&nodes).count() - silent.len();
    if alive > 0 {
        findings.push(finding(
            area,
            Level::Well,
            format!("{alive} of {} nodes looked at lately", nodes.len()),
            None,
        ));
    }
    findings
}

fn devices(found: &Found) -> Vec<Finding> {
    let mut findings = Vec::new();
    for topology in &found.visible.objects.topologies {
        let ill = topology.spec.devices.iter().filter(|device| device.health != Health::Ok);
        let ill: Vec<String> = ill.map(|device| format!("{} {}", device.id, device.health)).collect();
        if !ill.is_empty() {
            let text = format!("{}: {}", topology.name_any(), listed(&ill));
            let to_do =
                format!("kubectl cairn topology {}; the node's driver and its log", topology.name_any());
            findings.push(finding("devices", Level::Warning, text, Some(&to_do)));
        }
    }
    findings
}

fn pools(found: &Found, default_policy: &str) -> Vec<Finding> {
    let area = "pools";
    let objects = &found.visible.objects;
    if let Some(why) = found.visible.without(&["nodes", "pods", "nodetopologies", "devicepools"]) {
        return vec![unknown(area, &why)];
    }
    let mut findings = Vec::new();
    if objects.pools.is_empty() && !objects.applications.is_empty() {
        let to_do = "apply a DevicePool for each kind of device, as in examples/pools.yaml";
        findings.push(finding(area, Level::Wrong, "there is none, so nothing has a place", Some(to_do)));
    }
    for (pool, (report, allocated)) in world::pools(&Index::of(objects), &Policy::builtin(default_policy)) {
        let counts = format!(
            "{pool}: {} units, {} can be used, {allocated} host actors",
            report.units, report.healthy
        );
        if report.units == 0 && report.problems.is_empty() {
            let to_do = "see that its nodeSelector and devices match: kubectl cairn topology NODE";
            findings.push(finding(area, Level::Warning, counts.clone(), Some(to_do)));
        } else if report.problems.is_empty() {
            findings.push(finding(area, Level::Well, counts.clone(), None));
        }
        for (type_, problem) in &report.problems {
            let text = format!("{counts}; {type_}: {problem}");
            findings.push(finding(
                area,
                Level::Warning,
                text,
                Some(&format!("kubectl describe devicepool {pool}")),
            ));
        }
    }
    let offered: BTreeSet<&str> = objects.pools.iter().map(|pool| pool.spec.kind.as_str()).collect();
    for application in &objects.applications {
        let asked = |group: &crds::ActorGroup| {
            let kinds: Vec<String> = group.implementations.iter().map(|it| it.kind.clone()).collect();
            (!kinds.iter().any(|kind| offered.contains(kind.as_str()))).then(|| (group.name.clone(), kinds))
        };
        for (group, kinds) in application.spec.actors.iter().filter_map(asked) {
            let text = format!(
                "{}: {group} runs on {} only, which no pool offers",
                ApplicationKey::of(application),
                kinds.join(", ")
            );
            findings.push(finding(
                area,
                Level::Wrong,
                text,
                Some("apply a DevicePool of this kind, or add an implementation"),
            ));
        }
    }
    findings
}

fn policies(found: &Found, default_policy: &str) -> Vec<Finding> {
    let area = "policies";
    let objects = &found.visible.objects;
    if let Some(why) = found.visible.without(&["configmaps"]) {
        return vec![unknown(area, &why)];
    }
    let mut findings = Vec::new();
    let mut sound = Vec::new();
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
                Level::Wrong,
                problem,
                Some("correct it, and try it with kubectl cairn check-policy"),
            )),
            None => sound.push(name),
        }
    }
    let known: BTreeSet<String> = objects.policies.iter().map(|policy| policy.name_any()).collect();
    let asked = objects
        .applications
        .iter()
        .map(|it| (ApplicationKey::of(it), it.spec.policy.as_deref().unwrap_or(default_policy)));
    for (application, name) in asked.filter(|(_, name)| !known.contains(*name)) {
        let text = format!("{application} names {name}, which is not there");
        findings.push(finding(
            area,
            Level::Wrong,
            text,
            Some("name one that is there, or apply it in the operator's namespace"),
        ));
    }
    if !sound.is_empty() {
        sound.sort_unstable();
        findings.push(finding(area, Level::Well, listed(&sound), None));
    } else if findings.is_empty() {
        let to_do = "apply those in policies/, or see --operator-namespace";
        findings.push(finding(area, Level::Warning, "there is none", Some(to_do)));
    }
    findings
}

fn rights(found: &Found) -> Finding {
    match &found.lacking {
        Err(why) => unknown("rights", why),
        Ok(lacking) if lacking.is_empty() => {
            finding("rights", Level::Well, "operator and agents may do what they must", None)
        }
        Ok(lacking) => {
            let text = format!("not allowed, and needed: {}", listed(lacking));
            let to_do = format!(
                "helm upgrade --install cairn charts/cairn -n {}; somebody took them away",
                found.namespace
            );
            finding("rights", Level::Wrong, text, Some(&to_do))
        }
    }
}

fn admission(found: &Found) -> Finding {
    let area = "admission";
    let (there, bound) = match (&found.admission, &found.bound) {
        (Err(why), _) | (_, Err(why)) => return unknown(area, why),
        (Ok(there), Ok(bound)) => (there, bound),
    };
    let lacks = |list: &Vec<String>| -> Vec<String> {
        let missing = ADMISSION.iter().filter(|name| !list.iter().any(|it| it == *name));
        missing.map(|name| (*name).to_owned()).collect()
    };
    let (missing, loose) = (lacks(there), lacks(bound));
    if missing.is_empty() && loose.is_empty() {
        return finding(area, Level::Well, "others cannot write what Cairn believes", None);
    }
    let text = if missing.is_empty() {
        let loose = loose.join(", ");
        format!("no binding has {loose} refuse anything: others can write what Cairn believes")
    } else {
        format!("without {}, others can write what Cairn believes", missing.join(", "))
    };
    finding(area, Level::Warning, text, Some("helm upgrade with admissionPolicies.install=true"))
}

#[cfg(test)]
mod tests;
