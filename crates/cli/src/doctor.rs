//! `doctor`: checks the installation: operator, agents, pools, policies, permissions, admission policies.

mod diagnosis;
mod findings;
mod permissions;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};

use self::diagnosis::diagnose;
use self::findings::{AGENT_PODS, Finding, InstallationState, Level, OPERATOR};
use self::permissions::{Permission, PermissionScope};
use crate::access::{AccessibleObjects, everything};
use crate::args::{DoctorArgs, Output};
use crate::cluster::{block_on, client};
use crate::error::{CliError, answer};
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::{Outcome, plan, print};

/// The number of concurrent access reviews.
const CONCURRENT_REVIEWS: usize = 8;

/// Runs the command.
pub fn run(args: &DoctorArgs) -> Result<Outcome, CliError> {
    let accessible = everything(&args.cluster)?;
    let state =
        block_on(&args.cluster, async { Ok(observe(client(&args.cluster).await?, accessible, args).await) })?;
    let findings = diagnose(&state, &args.default_policy, Timestamp::now());
    print(&match args.output {
        Output::Json => plan::json(&findings),
        Output::Yaml => plan::yaml(&findings),
        Output::Table => render(&findings, Style::of_stdout()),
    })?;
    if findings.iter().all(|finding| finding.level == Level::Unknown) {
        let problem = "nothing could be checked; you need read access to the whole cluster";
        return Err(CliError::Usage(problem.to_owned()));
    }
    let is_healthy = findings.iter().all(|finding| finding.level < Level::Error);
    Ok(if is_healthy { Outcome::Ok } else { Outcome::Problems })
}

async fn observe(client: Client, accessible: AccessibleObjects, args: &DoctorArgs) -> InstallationState {
    let namespace = &args.cluster.operator_namespace;
    let why = |error: kube::Error| answer(&error).unwrap_or_else(|| error.to_string());
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), namespace);
    let leader = Api::<Lease>::namespaced(client.clone(), namespace);
    let agents = Api::<Lease>::namespaced(client.clone(), &args.agents_namespace);
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    let parameters = ListParams::default();
    // one for each group of nodes
    let of_agents = ListParams::default().labels(AGENT_PODS);
    let (operator, agent, leader, agents, policies, bindings) = futures::join!(
        deployments.get_opt(OPERATOR),
        daemon_sets.list(&of_agents),
        leader.get_opt(OPERATOR),
        agents.list(&parameters),
        policies.list(&parameters),
        bindings.list(&parameters),
    );
    let agent = agent.map(|list| list.items);
    let watches_pods = agent.as_ref().is_ok_and(|agents| agents.iter().any(watches_pods));
    let has_agents = agent.as_ref().is_ok_and(|agents| !agents.is_empty());
    let missing = missing_permissions(&client, permissions::required(has_agents, watches_pods), args).await;
    InstallationState {
        namespace: namespace.clone(),
        accessible,
        operator: operator.map_err(why),
        agent: agent.map_err(why),
        leader: leader.map_err(why),
        agents: agents.map(|list| list.items).map_err(why),
        admission: policies.map(|list| list.items.iter().map(ResourceExt::name_any).collect()).map_err(why),
        bound: bindings.map(|list| list.items.iter().filter_map(denying_policy).collect()).map_err(why),
        missing_permissions: missing.map_err(why),
    }
}

/// Whether the agents watch pods, for device allocations or performance counters.
fn watches_pods(agent: &DaemonSet) -> bool {
    let pod = agent.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.iter().flat_map(|pod| &pod.containers);
    let mut flags = containers.flat_map(|container| container.args.iter().flatten());
    flags.any(|argument| argument.starts_with("--pod-resources") || argument == "--perf")
}

/// The policy of a binding whose action is `Deny`.
fn denying_policy(binding: &ValidatingAdmissionPolicyBinding) -> Option<String> {
    let spec = &binding.spec;
    let denies = spec.validation_actions.iter().any(|action| action == "Deny");
    denies.then(|| spec.policy_name.clone())
}

/// The required permissions that operator and agents lack.
async fn missing_permissions(
    client: &Client,
    required: Vec<Permission>,
    args: &DoctorArgs,
) -> Result<Vec<String>, kube::Error> {
    let reviews = &Api::<SubjectAccessReview>::all(client.clone());
    let requests = required.into_iter().map(|permission| async move {
        let review = review(&permission, args);
        let response = reviews.create(&PostParams::default(), &review).await?;
        let is_allowed = response.status.is_some_and(|status| status.allowed);
        let namespace = review.spec.resource_attributes.and_then(|attributes| attributes.namespace);
        let namespace = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let missing =
            format!("{} {} {}{namespace}", permission.account, permission.verb, permission.resource);
        Ok::<_, kube::Error>((!is_allowed).then_some(missing))
    });
    let responses: Vec<Option<String>> =
        futures::stream::iter(requests).buffered(CONCURRENT_REVIEWS).try_collect().await?;
    Ok(responses.into_iter().flatten().collect())
}

/// The review of whether an account has a permission.
fn review(permission: &Permission, args: &DoctorArgs) -> SubjectAccessReview {
    let operators = &args.cluster.operator_namespace;
    let (resource, subresource) =
        permission.resource.split_once('/').map_or((permission.resource, None), |(a, b)| (a, Some(b)));
    let namespace = match permission.scope {
        PermissionScope::Cluster => None,
        PermissionScope::OperatorNamespace => Some(operators.clone()),
        PermissionScope::AgentNamespace => Some(args.agents_namespace.clone()),
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{operators}:{}", permission.account)),
            groups: Some(vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()]),
            resource_attributes: Some(ResourceAttributes {
                group: Some(permission.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(str::to_owned),
                name: permission.name.map(str::to_owned),
                namespace,
                verb: Some(permission.verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

fn render(findings: &[Finding], style: Style) -> String {
    let mut table = Table::new(&["", "COMPONENT", "FINDING", "REMEDY"]);
    for finding in findings {
        let (mark, tone) = match finding.level {
            Level::Ok => ("ok", Tone::Good),
            Level::Unknown => ("?", Tone::Faint),
            Level::Warning => ("!", Tone::Change),
            Level::Error => ("error", Tone::Bad),
        };
        table.row([
            (mark.to_owned(), tone),
            (finding.area.to_owned(), Tone::Plain),
            (finding.text.clone(), Tone::Plain),
            (finding.to_do.clone().unwrap_or_default(), Tone::Plain),
        ]);
    }
    table.render(style)
}
