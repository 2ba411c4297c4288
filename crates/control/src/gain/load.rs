//! When a plan for measured load is due, and whether its moves pay: the same for operator, command line and simulator.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use placement::ix::ActorIx;
use placement::{Assignment, Snapshot};

use crate::gain::gate::{GateRule, GateVerdict, least_with_pauses};
use crate::gain::necessary::necessary_part;
use crate::gain::prune::{ElectiveMoves, WindowPrice};
use crate::model::Moment;
use crate::trigger::BACKGROUND_INTERVAL;

/// Change of the mean load from which a steady gain is looked for again.
const MEAN_CHANGE: f64 = 0.05;

/// Searches, one in each window, while a change may turn out to pay: then all windows are of the changed load.
const MOST_OPEN_SEARCHES: usize = 16;

/// The last search for measured load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastLoadSearch {
    /// When it was made.
    pub at: Moment,
    /// Settled windows at that time.
    pub windows: usize,
    /// Searches since the moves of one may have paid in more windows, that one included.
    pub open_searches: usize,
}

impl LastLoadSearch {
    /// The search that follows `last`, made because of this signal and with this result.
    ///
    /// Only for a changed load a search is repeated in each window. Further windows of a steady load say the same, and each search is one more
    /// chance for noise to pass.
    pub fn after(last: Option<Self>, at: Moment, signal: LoadSignal, verdict: Option<GateVerdict>) -> Self {
        let may_open = last.is_none_or(|last| signal.may_be_another_load(last));
        let is_open = match verdict {
            // Once there are enough windows, nothing else tells that the load had changed.
            Some(GateVerdict::Uncertain { .. } | GateVerdict::FewWindows { .. }) => true,
            Some(GateVerdict::Small { gain, least }) => gain >= least / 2.0,
            _ => false,
        };
        let before = last.map_or(0, |last| last.open_searches);
        let follows = (1..MOST_OPEN_SEARCHES).contains(&before);
        let open_searches = match before {
            0 => usize::from(is_open && may_open),
            _ if follows && !matches!(verdict, Some(GateVerdict::Pays { .. })) => before + 1,
            _ => 0,
        };
        Self { at, windows: signal.windows, open_searches }
    }

    /// Whether it looks again at the change of an earlier search, whose facts remain those to compare with.
    pub fn is_repeated(self) -> bool {
        self.open_searches > 1
    }
}

/// How the measured load, and what else a plan depends on, differ from those of the last search; nothing before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadSignal {
    /// Settled windows.
    pub windows: usize,
    /// Whether the newest windows differ by more than noise.
    pub has_changed: bool,
    /// Relative difference of the mean of all windows.
    pub mean_difference: f64,
    /// Whether the same load may have a better placement since: units of its kinds were freed, the decided places are others than those
    /// that a search was made for, or others overload its units. Noise of its own load never is an opportunity.
    pub has_opportunity: bool,
}

impl LoadSignal {
    /// Whether the load may be another one than that of the last search, or was measured in too few windows then.
    fn may_be_another_load(self, last: LastLoadSearch) -> bool {
        self.has_changed || self.mean_difference > MEAN_CHANGE || last.windows < GateRule::Steady.needed()
    }
}

/// The rule by which a search is due: the load changed, the last search was open, or there was time for a steady gain to show.
///
/// An opportunity is searched once, by the rule for steady gains and at most once per [`BACKGROUND_INTERVAL`].
///
/// A change is searched once even if there are too few windows to judge it, and then again when there are enough. While a search
/// is open, a change that was seen with it may still differ from its facts: the rules alternate.
pub fn due_load_rule(last: Option<LastLoadSearch>, signal: LoadSignal, now: Moment) -> Option<GateRule> {
    let needed = GateRule::Steady.needed();
    let Some(last) = last else { return (signal.windows >= needed).then_some(GateRule::Steady) };
    let shows_change = signal.windows >= GateRule::Change.needed();
    match last.open_searches {
        0 if signal.has_changed => return Some(GateRule::Change),
        1 if shows_change => return Some(GateRule::Change),
        open if open % 2 == 1 && shows_change && signal.has_changed => return Some(GateRule::Change),
        1.. if signal.windows >= needed => return Some(GateRule::Steady),
        _ => {}
    }
    let has_waited = now >= last.at + BACKGROUND_INTERVAL;
    let is_new = signal.has_opportunity || signal.may_be_another_load(last);
    (signal.windows >= needed && has_waited && is_new).then_some(GateRule::Steady)
}

/// The terms of a policy for moves for measured load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadTerms {
    /// Least gain, as a fraction.
    pub least: f64,
    /// Most moves of one decision.
    pub max_moves: usize,
    /// Pause of an actor that moves, if its group is not in `pauses`.
    pub pause_seconds: f64,
    /// By group, without namespace and application: the median pause of its last moves, in seconds.
    pub pauses: BTreeMap<String, f64>,
    /// Time in which the pauses must pay.
    pub horizon_seconds: f64,
}

/// What becomes of a plan for measured load.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadJudgement {
    /// The plan is not noticeably better.
    NoGain,
    /// Its elective moves were judged.
    Judged {
        /// The moves that carry the gain.
        moves: ElectiveMoves,
        /// What the gate says of them.
        verdict: GateVerdict,
    },
}

impl LoadJudgement {
    /// What the gate says of the moves, if there are any.
    pub fn verdict(&self) -> Option<GateVerdict> {
        match self {
            Self::NoGain => None,
            Self::Judged { verdict, .. } => Some(*verdict),
        }
    }

    /// The moves that pay, and their expected gain.
    pub fn pays(&self) -> Option<(&ElectiveMoves, f64)> {
        match self {
            Self::Judged { moves, verdict: GateVerdict::Pays { gain, .. } } => Some((moves, *gain)),
            _ => None,
        }
    }
}

impl ElectiveMoves {
    /// The elective moves of a plan on these facts that are worth being made; `None` if there are none.
    ///
    /// `snapshot` includes the constraints that the policy derives.
    pub fn of_plan(snapshot: &Snapshot, goes: &Assignment, terms: &LoadTerms) -> Option<Self> {
        Self::of(snapshot, necessary_part(snapshot, goes), goes, terms.least, terms.max_moves)
    }

    /// The gain that they must reach: the policy's least gain, and what the pauses of the movers cost.
    pub fn required_gain(&self, snapshot: &Snapshot, terms: &LoadTerms) -> f64 {
        let work = |actor| {
            self.stays[actor].and_then(|unit| snapshot.implementation(actor, unit)).map_or(0, |it| it.work)
        };
        let own = ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor));
        let all: i64 = own.map(work).sum();
        #[expect(clippy::cast_precision_loss, reason = "work is at most 2^53")]
        let part = |actor| work(actor) as f64 / all.max(1) as f64;
        let pause = |actor: ActorIx| {
            let group = snapshot.file().actors[actor.at()].group.as_deref();
            let group = group.and_then(|group| group.rsplit('/').next());
            group.and_then(|group| terms.pauses.get(group)).copied().unwrap_or(terms.pause_seconds)
        };
        let pauses = self.gains.keys().map(|actor| (pause(*actor), part(*actor)));
        least_with_pauses(terms.least, pauses, terms.horizon_seconds)
    }
}

/// Takes back the moves of a plan that carry little of its gain, and judges the rest by single windows.
///
/// `snapshot` has the facts of the rule, and the constraints that the policy derives; `window` makes the snapshot of one of
/// so many settled windows, counted from the newest. One of these exists at a time.
///
/// # Errors
/// The snapshot of a window cannot be made.
pub fn judge_moves<S: Borrow<Snapshot>, E>(
    rule: GateRule,
    (snapshot, goes): (&Snapshot, &Assignment),
    terms: &LoadTerms,
    windows: usize,
    mut window: impl FnMut(usize) -> Result<S, E>,
) -> Result<LoadJudgement, E> {
    let Some(moves) = ElectiveMoves::of_plan(snapshot, goes, terms) else {
        return Ok(LoadJudgement::NoGain);
    };
    let required = moves.required_gain(snapshot, terms);
    let prices = (0..windows).rev().map(|at| Ok(moves.price(window(at)?.borrow())));
    let verdict = moves.judge(rule, &prices.collect::<Result<Vec<WindowPrice>, E>>()?, required);
    Ok(LoadJudgement::Judged { moves, verdict })
}
