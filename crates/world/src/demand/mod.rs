//! What actors ask for: messages and work (the arithmetic of the API's document).

pub(crate) mod actors;
pub(crate) mod application;
pub(crate) mod flows;
pub(crate) mod pods;
pub(crate) mod requested;

use std::collections::BTreeMap;

use crds::{ActorApplication, ActorGroup, ChannelPattern};
use num_rational::Ratio;

use crate::Policy;
use crate::demand::actors::ApplicationActors;
use crate::demand::flows::{Flow, GroupFlow, beside, each_to_each, group_of};
use crate::demand::pods::{Quantities, asks, requests_with};
use crate::numbers::{Exact, ceil, duration, product, quantity, rate};

/// The most work and the most messages of one actor in a window, the most of what moving it costs, and of what its pod asks for: 5,000
/// actors, the most of an application, stay below the 2^53 that a snapshot may add up to, and so do some of others beside them. More is a
/// slip: it is tens of thousands of lanes in the usual window.
const MOST_OF_AN_ACTOR: u64 = 1 << 40;

/// The most work of one actor in however long a window.
const MOST_WORK: u64 = 1 << 50;

/// The window that a policy has which names none, in microseconds.
const USUAL_WINDOW: i128 = 30_000_000;

/// One group in numbers.
pub(crate) struct GroupNumbers {
    /// Price of moving one actor.
    pub move_cost: u64,
    /// By kind: work in microseconds per window, and what a pod asks of its node.
    pub kinds: BTreeMap<String, (u64, Quantities)>,
}

/// An application in numbers.
pub(crate) struct Numbers {
    /// By position of the group.
    pub groups: Vec<GroupNumbers>,
    /// By pair of positions among the actors: who sends first, and how many messages in a window. The sum of both
    /// directions is what is rounded up, once.
    pub messages: Vec<(usize, usize, u64)>,
    /// By pair of positions: drag when apart.
    pub drags: Vec<(usize, usize, u64)>,
    /// What everyone of a group sends to everyone of another: they are not listed one by one.
    pub of_groups: Vec<GroupFlow>,
}

impl Numbers {
    /// Works an application out under a policy.
    ///
    /// # Errors
    /// Where the manifest is wrong, as a path in `spec`, and what is wrong.
    pub fn of(
        application: &ActorApplication,
        actors: &ApplicationActors,
        policy: &Policy,
    ) -> Result<Self, String> {
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
            // Who was asked for while the application runs has no index that others are paired with.
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
                    return Err(format!("spec.{at}: a Ring goes from a group to itself; set `to` as `from`"));
                }
                _ => {}
            }
            let each = receivers_of_one(channel.pattern, senders, receivers, from == to);
            if each == 0 || senders == 0 {
                continue;
            }
            let pair_rate = rate / whole(each);
            towards[to] += pair_rate * whole(each * senders) / whole(receivers);
            // Messages above the quantum count several times on the way; the work of the receiver does not grow.
            let quanta = product([bytes, policy.message_quantum.recip()])
                .map(|quanta| quanta.ceil().max(Exact::from(1)));
            let sent = quanta.and_then(|quanta| product([rate, seconds, quanta]));
            let sent = at_most(sent, MOST_OF_AN_ACTOR, || {
                format!("spec.{at}: an actor sends too many messages in a window, rate times messageBytes")
            })?;
            let count = sent / whole(each);
            let drag =
                u64::try_from(channel.drag).map_err(|_| format!("spec.{at}.drag: is below 0; correct it"))?;
            let add = |flows: &mut BTreeMap<(usize, usize), Flow>, a: usize, b: usize| {
                let flow = flows.entry((a.min(b), a.max(b))).or_default();
                *(if a <= b { &mut flow.up } else { &mut flow.down }) += count;
                flow.drag += drag;
            };
            match channel.pattern {
                ChannelPattern::AllToAll => add(&mut of_groups, from, to),
                ChannelPattern::OneToOne => {
                    (0..senders).for_each(|at| add(&mut flows, members[from][at], members[to][at]));
                }
                ChannelPattern::Ring => (0..senders).for_each(|at| {
                    add(&mut flows, members[from][at], members[to][(at + 1) % senders]);
                }),
            }
        }
        let of_group = |(group, towards)| group_numbers(group, towards, policy, &actors.defaults);
        let groups = groups.iter().zip(towards).map(of_group);
        let groups = groups.collect::<Result<_, _>>()?;
        let messages = flows.iter().flat_map(|(&(a, b), flow)| {
            let (up, down) = beside(&of_groups, [a, b].map(|actor| group_of(&members, actor)), flow);
            [(a, b, up), (b, a, down)]
        });
        Ok(Self {
            groups,
            messages: messages.filter(|(_, _, count)| *count > 0).collect(),
            of_groups: of_groups.iter().flat_map(|(pair, flow)| each_to_each(*pair, flow)).collect(),
            drags: flows.iter().filter(|(_, f)| f.drag > 0).map(|((a, b), f)| (*a, *b, f.drag)).collect(),
        })
    }
}

/// How many edges the channels make at most, one between whole groups being one; cheap, to be asked before they are listed.
pub(crate) fn edges_of(application: &ActorApplication, sizes: &BTreeMap<&str, usize>) -> usize {
    let size = |name: &str| sizes.get(name).copied().unwrap_or(0);
    let of_channel = |channel: &crds::Channel| match channel.pattern {
        ChannelPattern::AllToAll => 1,
        ChannelPattern::OneToOne | ChannelPattern::Ring => size(&channel.from),
    };
    application.spec.channels.iter().map(of_channel).fold(0, usize::saturating_add)
}

fn group_numbers(
    group: &ActorGroup,
    towards: Exact,
    policy: &Policy,
    defaults: &Quantities,
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
        let spec = implementation.template.spec.clone().unwrap_or_default();
        let asked = requests_with(&spec, defaults).map_err(|e| format!("{}: {e}", at("template")))?;
        if let Some((resource, _)) = asks(&asked).into_iter().find(|(_, amount)| *amount > MOST_OF_AN_ACTOR) {
            return Err(format!(
                "{}: a pod asks for too much {resource}; it may be 2^40, correct it",
                at("template")
            ));
        }
        let work = at_most(product([towards + arrivals, seconds, service]), most_work(policy), || {
            format!("{}: an actor has too much work in a window, what arrives times it", at("serviceTime"))
        })?;
        Ok((implementation.kind.clone(), (ceil(work), asked)))
    };
    let points = at_most(product([state, policy.bytes_per_point.recip()]), MOST_OF_AN_ACTOR, || {
        format!("{}: moving an actor costs too much", at("stateBytes"))
    })?;
    Ok(GroupNumbers {
        move_cost: policy.move_fixed.saturating_add(ceil(points)),
        kinds: group.implementations.iter().map(kind).collect::<Result<_, String>>()?,
    })
}

/// The most work of one actor in a window of this policy: as many lanes in a long one as in the usual one.
fn most_work(policy: &Policy) -> u64 {
    let windows = ceil(policy.window / Exact::from(USUAL_WINDOW)).max(1);
    MOST_OF_AN_ACTOR.saturating_mul(windows).min(MOST_WORK)
}

/// A number of one actor, if it is known and no slip.
fn at_most(number: Option<Exact>, most: u64, what: impl Fn() -> String) -> Result<Exact, String> {
    let bound = Exact::from(i128::from(most));
    let power = most.ilog2();
    number
        .filter(|number| *number <= bound)
        .ok_or_else(|| format!("{}; it may be 2^{power}, correct it", what()))
}

pub(crate) fn replicas(group: &ActorGroup) -> usize {
    usize::try_from(group.replicas).unwrap_or(0)
}

fn whole(number: usize) -> Exact {
    Ratio::from(i128::try_from(number).expect("counts of actors fit"))
}

/// How many receivers one sender has.
fn receivers_of_one(pattern: ChannelPattern, senders: usize, receivers: usize, same_group: bool) -> usize {
    match pattern {
        ChannelPattern::AllToAll => receivers - usize::from(same_group && receivers > 0),
        ChannelPattern::OneToOne => usize::from(!same_group && receivers > 0),
        ChannelPattern::Ring => usize::from(senders > 1),
    }
}
