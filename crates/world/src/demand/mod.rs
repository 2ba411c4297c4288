//! Work and messages of an application, computed from its manifest.

pub(crate) mod actors;
pub(crate) mod admission;
pub(crate) mod application;
pub(crate) mod flows;
pub(crate) mod measured;
pub(crate) mod mobility;
pub(crate) mod pods;
pub(crate) mod requested;
pub(crate) mod size;

use std::collections::BTreeMap;

use crds::{ActorApplication, ActorGroup, ChannelPattern};
use num_rational::Ratio;

use crate::Policy;
use crate::demand::actors::ApplicationActors;
use crate::demand::admission::PodAdmission;
use crate::demand::application::replicas;
use crate::demand::flows::{Flow, GroupFlow, group_flows, group_of, pair_messages};
use crate::demand::pods::{Quantities, in_mebibytes, resource_amounts};
use crate::demand::size::{size_problem, template_problem};
use crate::numbers::{Exact, ceil, duration, product, quantity, rate, round_up, sum};

/// Maximum per actor of work, messages, move cost and requests. The sum over 5,000 actors stays below 2^53, the limit
/// of a snapshot. A larger number is a mistake: it means tens of thousands of lanes.
pub(crate) const MAX_PER_ACTOR: u64 = 1 << 40;

/// Maximum work of one actor in any window.
const MAX_WORK: u64 = 1 << 50;

/// Default window in microseconds.
const DEFAULT_WINDOW: i128 = 30_000_000;

/// Numbers of a group.
pub(crate) struct GroupNumbers {
    /// Cost of moving one actor.
    pub move_cost: u64,
    /// Work in microseconds per window and requests of a pod, by kind.
    pub kinds: BTreeMap<String, (u64, Quantities)>,
}

/// Numbers of an application.
pub(crate) struct Numbers {
    /// By position of the group.
    pub groups: Vec<GroupNumbers>,
    /// Sender, receiver and messages per window, by position. The sum of both directions is rounded up once.
    pub messages: Vec<(usize, usize, u64)>,
    /// Pairs of positions and the penalty for separating them.
    pub drags: Vec<(usize, usize, u64)>,
    /// Messages between whole groups, which are not listed per pair.
    pub of_groups: Vec<GroupFlow>,
}

impl Numbers {
    /// Computes the numbers of an application under a policy.
    ///
    /// # Errors
    /// An invalid manifest: the path in `spec` and the problem.
    pub fn of(
        application: &ActorApplication,
        actors: &ApplicationActors,
        policy: &Policy,
    ) -> Result<Self, String> {
        // Before anything is listed: other applications' manifests are read under the index's lock, too.
        if let Some(problem) = size_problem(application, actors).or_else(|| template_problem(application)) {
            return Err(problem);
        }
        let groups = &application.spec.actors;
        let members = actors.by_group(application);
        let position = |name: &str, at: &str| {
            let found = groups.iter().position(|group| group.name == name);
            found.ok_or_else(|| format!("spec.{at}: there is no group `{name}`; correct the name"))
        };
        let seconds = policy.window / Exact::from(1_000_000);
        let mut towards = vec![Exact::default(); groups.len()];
        let mut flows: BTreeMap<(usize, usize), Flow> = BTreeMap::new();
        let mut of_groups: BTreeMap<(usize, usize), Flow> = BTreeMap::new();
        for (i, channel) in application.spec.channels.iter().enumerate() {
            let at = format!("channels[{i}]");
            let (from, to) = (position(&channel.from, &at)?, position(&channel.to, &at)?);
            let rate = rate(&channel.rate).map_err(|e| format!("spec.{at}.rate: {e}"))?;
            let bytes =
                quantity(&channel.message_bytes.0).map_err(|e| format!("spec.{at}.messageBytes: {e}"))?;
            // Requested actors have no index and hence no partner.
            let count = |group: usize| match channel.pattern {
                ChannelPattern::AllToAll => members[group].len(),
                ChannelPattern::OneToOne | ChannelPattern::Ring => replicas(&groups[group]),
            };
            let (senders, receivers) = (count(from), count(to));
            match channel.pattern {
                ChannelPattern::OneToOne if senders != receivers => {
                    return Err(format!(
                        "spec.{at}: OneToOne needs equal replicas; make them equal or use AllToAll"
                    ));
                }
                ChannelPattern::Ring if from != to => {
                    return Err(format!(
                        "spec.{at}: a Ring connects a group with itself; set `to` to the same group as `from`"
                    ));
                }
                _ => {}
            }
            let each = receivers_of_one(channel.pattern, senders, receivers, from == to);
            if each == 0 || senders == 0 {
                continue;
            }
            let pair_rate = rate / whole(each);
            let received = pair_rate * whole(each * senders) / whole(receivers);
            towards[to] = sum([towards[to], received]).ok_or_else(|| too_many_digits(&at))?;
            // A large message counts several times as traffic, but once as work.
            let quanta = product([bytes, policy.message_quantum.recip()])
                .map(|quanta| Exact::from(round_up(quanta).max(1)));
            let sent = quanta.and_then(|quanta| product([rate, seconds, quanta]));
            let sent = bounded(sent, MAX_PER_ACTOR, || {
                format!("spec.{at}: an actor sends too many messages in a window (rate times messageBytes)")
            })?;
            let count = product([sent, whole(each).recip()]).ok_or_else(|| too_many_digits(&at))?;
            let drag =
                u64::try_from(channel.drag).map_err(|_| format!("spec.{at}.drag: is below 0; correct it"))?;
            let add = |flows: &mut BTreeMap<(usize, usize), Flow>, a: usize, b: usize| {
                let flow = flows.entry((a.min(b), a.max(b))).or_default();
                let messages = if a <= b { &mut flow.up } else { &mut flow.down };
                *messages = sum([*messages, count])?;
                flow.drag = flow.drag.saturating_add(drag);
                Some(())
            };
            let added = match channel.pattern {
                ChannelPattern::AllToAll => add(&mut of_groups, from, to),
                ChannelPattern::OneToOne => {
                    (0..senders).try_for_each(|at| add(&mut flows, members[from][at], members[to][at]))
                }
                ChannelPattern::Ring => (0..senders)
                    .try_for_each(|at| add(&mut flows, members[from][at], members[to][(at + 1) % senders])),
            };
            added.ok_or_else(|| too_many_digits(&at))?;
        }
        let of_group = |(group, towards)| group_numbers(group, towards, policy, &actors.admission);
        let groups = groups.iter().zip(towards).map(of_group);
        let groups = groups.collect::<Result<_, _>>()?;
        let mut messages = Vec::new();
        for (&(a, b), flow) in &flows {
            let (up, down) = pair_messages(&of_groups, [a, b].map(|actor| group_of(&members, actor)), flow)
                .ok_or_else(|| too_many_digits("channels"))?;
            messages.extend([(a, b, up), (b, a, down)].into_iter().filter(|(_, _, count)| *count > 0));
        }
        let of_groups: Option<Vec<Vec<GroupFlow>>> =
            of_groups.iter().map(|(pair, flow)| group_flows(*pair, flow)).collect();
        let of_groups = of_groups.ok_or_else(|| too_many_digits("channels"))?;
        Ok(Self {
            groups,
            messages,
            of_groups: of_groups.into_iter().flatten().collect(),
            drags: flows.iter().filter(|(_, f)| f.drag > 0).map(|((a, b), f)| (*a, *b, f.drag)).collect(),
        })
    }
}

fn group_numbers(
    group: &ActorGroup,
    towards: Exact,
    policy: &Policy,
    admission: &PodAdmission,
) -> Result<GroupNumbers, String> {
    let at = |field: &str| format!("spec.actors[{}].{field}", group.name);
    let arrivals = group.arrivals.as_deref().map_or(Ok(Exact::default()), rate);
    let arrivals = arrivals.map_err(|e| format!("{}: {e}", at("arrivals")))?;
    let state = quantity(&group.state_bytes.0).map_err(|e| format!("{}: {e}", at("stateBytes")))?;
    let seconds = policy.window / Exact::from(1_000_000);
    let kind = |implementation: &crds::Implementation| {
        let at = |field: &str| at(&format!("implementations[{}].{field}", implementation.kind));
        let service =
            duration(&implementation.service_time).map_err(|e| format!("{}: {e}", at("serviceTime")))?;
        let asked = admission.requests(implementation).map_err(|e| format!("{}: {e}", at("template")))?;
        if let Some((resource, _)) = resource_amounts(&asked)
            .into_iter()
            .find(|(resource, amount)| in_mebibytes(resource, *amount) > MAX_PER_ACTOR)
        {
            return Err(format!(
                "{}: a pod requests too much {resource}; the maximum is 2^40, correct it",
                at("template")
            ));
        }
        let handled = sum([towards, arrivals]);
        let work = handled.and_then(|handled| product([handled, seconds, service]));
        let work = bounded(work, max_work(policy), || {
            format!(
                "{}: an actor has too much work in a window (arrivals times serviceTime)",
                at("serviceTime")
            )
        })?;
        Ok((implementation.kind.clone(), (ceil(work), asked)))
    };
    let points = bounded(product([state, policy.bytes_per_point.recip()]), MAX_PER_ACTOR, || {
        format!("{}: moving an actor costs too much", at("stateBytes"))
    })?;
    Ok(GroupNumbers {
        move_cost: policy.move_fixed.saturating_add(ceil(points)),
        kinds: group.implementations.iter().map(kind).collect::<Result<_, String>>()?,
    })
}

/// Maximum work of one actor in a window of this policy.
fn max_work(policy: &Policy) -> u64 {
    let windows = ceil(policy.window / Exact::from(DEFAULT_WINDOW)).max(1);
    MAX_PER_ACTOR.saturating_mul(windows).min(MAX_WORK)
}

/// Rejects numbers that are too large.
fn bounded(number: Option<Exact>, most: u64, what: impl Fn() -> String) -> Result<Exact, String> {
    let bound = Exact::from(i128::from(most));
    let power = most.ilog2();
    number
        .filter(|number| *number <= bound)
        .ok_or_else(|| format!("{}; the maximum is 2^{power}, correct it", what()))
}

/// Rates whose sum is not representable.
fn too_many_digits(at: &str) -> String {
    format!(
        "spec.{at}: the rates of its actors' channels cannot be added exactly; write them with fewer digits"
    )
}

fn whole(number: usize) -> Exact {
    Ratio::from(i128::try_from(number).expect("counts of actors fit"))
}

/// Receivers of one sender.
fn receivers_of_one(pattern: ChannelPattern, senders: usize, receivers: usize, same_group: bool) -> usize {
    match pattern {
        ChannelPattern::AllToAll => receivers - usize::from(same_group && receivers > 0),
        ChannelPattern::OneToOne => usize::from(!same_group && receivers > 0),
        ChannelPattern::Ring => usize::from(senders > 1),
    }
}
