//! `doctor`: whether Cairn itself is well: operator, agents, pools, policies, rights, admission policies.

mod diagnosis;
mod found;
mod rights;

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
use self::found::{AGENT, Finding, Found, Level, OPERATOR};
use self::rights::{Place, Right};
use crate::arguments::{DoctorArguments, Output};
use crate::cluster::{client, wait_for};
use crate::error::CliError;
use crate::style::{Style, Tone};
use crate::table::Table;
use crate::visible::{Visible, everything};
use crate::{Outcome, plan, print};

/// How many questions are asked at once.
const AT_ONCE: usize = 8;

/// Looks, and says how everything is.
pub fn run(arguments: &DoctorArguments) -> Result<Outcome, CliError> {
    let visible = everything(&arguments.cluster)?;
    let found = wait_for(async { Ok(look(client(&arguments.cluster).await?, visible, arguments).await) })?;
    let findings = diagnose(&found, &arguments.default_policy, Timestamp::now());
    print(&match arguments.output {
        Output::Json => plan::json(&findings),
        Output::Yaml => plan::yaml(&findings),
        Output::Table => render(&findings, Style::of_stdout()),
    })?;
    let is_well = findings.iter().all(|finding| finding.level < Level::Wrong);
    Ok(if is_well { Outcome::Done } else { Outcome::Wrong })
}

async fn look(client: Client, visible: Visible, arguments: &DoctorArguments) -> Found {
    let namespace = &arguments.cluster.operator_namespace;
    let why = |error: kube::Error| error.to_string();
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), namespace);
    let leader = Api::<Lease>::namespaced(client.clone(), namespace);
    let agents = Api::<Lease>::namespaced(client.clone(), &arguments.agents_namespace);
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    let everything = ListParams::default();
    let (operator, agent, leader, agents, policies, bindings) = futures::join!(
        deployments.get_opt(OPERATOR),
        daemon_sets.get_opt(AGENT),
        leader.get_opt(OPERATOR),
        agents.list(&everything),
        policies.list(&everything),
        bindings.list(&everything),
    );
    let asks_for_pods = agent.as_ref().is_ok_and(|agent| agent.as_ref().is_some_and(asks_for_pods));
    let is_there = agent.as_ref().is_ok_and(Option::is_some);
    let lacking = lacking(&client, rights::needed(is_there, asks_for_pods), arguments).await;
    Found {
        namespace: namespace.clone(),
        visible,
        operator: operator.map_err(why),
        agent: agent.map_err(why),
        leader: leader.map_err(why),
        agents: agents.map(|list| list.items).map_err(why),
        admission: policies.map(|list| list.items.iter().map(ResourceExt::name_any).collect()).map_err(why),
        bound: bindings.map(|list| list.items.iter().filter_map(denied_by).collect()).map_err(why),
        lacking: lacking.map_err(why),
    }
}

/// Whether the agents look at pods, to tell who holds a device, or to count for them.
fn asks_for_pods(agent: &DaemonSet) -> bool {
    let pod = agent.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.iter().flat_map(|pod| &pod.containers);
    let mut arguments = containers.flat_map(|container| container.args.iter().flatten());
    arguments.any(|argument| argument.starts_with("--pod-resources") || argument == "--perf")
}

/// The policy that a binding has refuse what it finds wrong.
fn denied_by(binding: &ValidatingAdmissionPolicyBinding) -> Option<String> {
    let spec = binding.spec.as_ref()?;
    let denies = spec.validation_actions.iter().flatten().any(|action| action == "Deny");
    spec.policy_name.clone().filter(|_| denies)
}

/// What operator and agents may not do of that which they must.
async fn lacking(
    client: &Client,
    needed: Vec<Right>,
    arguments: &DoctorArguments,
) -> Result<Vec<String>, kube::Error> {
    let reviews = &Api::<SubjectAccessReview>::all(client.clone());
    let asked = needed.into_iter().map(|right| async move {
        let review = review(&right, arguments);
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        let where_to = review.spec.resource_attributes.and_then(|asked| asked.namespace);
        let where_to = where_to.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let lacks = format!("{} {} {}{where_to}", right.who, right.verb, right.resource);
        Ok::<_, kube::Error>((!is_allowed).then_some(lacks))
    });
    let answers: Vec<Option<String>> = futures::stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

/// The question whether an account has a right.
fn review(right: &Right, arguments: &DoctorArguments) -> SubjectAccessReview {
    let operators = &arguments.cluster.operator_namespace;
    let (resource, subresource) =
        right.resource.split_once('/').map_or((right.resource, None), |(a, b)| (a, Some(b)));
    let namespace = match right.place {
        Place::Everywhere => None,
        Place::Operators => Some(operators.clone()),
        Place::Agents => Some(arguments.agents_namespace.clone()),
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{operators}:{}", right.who)),
            groups: Some(vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()]),
            resource_attributes: Some(ResourceAttributes {
                group: Some(right.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(str::to_owned),
                name: right.name.map(str::to_owned),
                namespace,
                verb: Some(right.verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

fn render(findings: &[Finding], style: Style) -> String {
    let mut table = Table::new(&["", "PART", "FOUND", "WHAT TO DO"]);
    for finding in findings {
        let (mark, tone) = match finding.level {
            Level::Well => ("ok", Tone::Good),
            Level::Unknown => ("?", Tone::Faint),
            Level::Warning => ("!", Tone::Change),
            Level::Wrong => ("wrong", Tone::Bad),
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
