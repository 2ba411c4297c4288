//! The steps that bring a plan to its commit: wait, repair, judge, commit or give up.

/// How often derived facts are computed before taking the lock; if the snapshot changes faster, they are computed under it if
/// that takes little time.
const MAX_AHEAD: u32 = 2;
/// After how many stale derivations a plan whose facts take long is given up.
const MAX_STALE_DERIVATIONS: u32 = 5;
/// How often a plan is repaired or judged again before it is given up.
const MAX_WORK: u32 = 5;

/// The result of checking a plan against the latest snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recheck {
    /// Feasible, and judged as it is.
    Judged,
    /// Feasible and judged, but the policy derives other facts than where it was judged.
    PolicyChanged,
    /// Partly feasible; conflicting actors are left out.
    Partial,
    /// Infeasible.
    Infeasible,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStep {
    /// Commit it as it is, or as infeasible.
    Commit,
    /// Wait for other plans in repair.
    Wait,
    /// Place the conflicting actors again.
    Repair,
    /// Judge it before the commit.
    Judge,
    /// Plan again.
    GiveUp,
}

/// The steps taken so far.
#[derive(Debug)]
pub struct CommitAttempts {
    /// Repairs left.
    repairs: u32,
    may_follow_policy: bool,
    has_waited: bool,
    /// How often the snapshot changed after the derived facts were computed.
    stale_derivations: u32,
    worked: u32,
}

impl CommitAttempts {
    /// No steps yet.
    pub fn new() -> Self {
        Self {
            repairs: MAX_WORK,
            may_follow_policy: true,
            has_waited: false,
            stale_derivations: 0,
            worked: 0,
        }
    }

    /// Whether derived facts are computed under the lock: the snapshot changes faster than they can be computed ahead, and
    /// they take little time.
    pub fn derive_under_lock(&self, is_quick: bool) -> bool {
        is_quick && self.stale_derivations >= MAX_AHEAD
    }

    /// Records that the snapshot changed after the derived facts were computed. Returns whether they may be computed once
    /// more; otherwise the plan is given up.
    #[must_use]
    pub fn record_stale_derivation(&mut self) -> bool {
        self.stale_derivations += 1;
        self.stale_derivations < MAX_STALE_DERIVATIONS
    }

    /// Only a search can place the conflicting actors.
    pub fn cannot_repair(&mut self) {
        self.repairs = 0;
    }

    /// The next step after a check.
    ///
    /// A plan that is still as it was judged is committed in the end, even if the policy's facts changed; any other one never
    /// is without a judgement.
    pub fn next(&mut self, recheck: Recheck) -> CommitStep {
        let may_work = self.worked < MAX_WORK;
        let is_repaired =
            matches!(recheck, Recheck::Partial | Recheck::Infeasible) && self.repairs > 0 && may_work;
        let is_judged_first = match recheck {
            Recheck::Partial => true,
            Recheck::PolicyChanged => self.may_follow_policy && may_work,
            Recheck::Judged | Recheck::Infeasible => false,
        };
        if !is_repaired && !is_judged_first {
            return CommitStep::Commit;
        }
        if !may_work {
            return CommitStep::GiveUp;
        }
        let follows_policy = recheck == Recheck::PolicyChanged;
        if !follows_policy && !self.has_waited {
            self.has_waited = true;
            // The plans before it have changed the snapshot; none in repair does from now on.
            self.stale_derivations = self.stale_derivations.min(MAX_AHEAD - 1);
            return CommitStep::Wait;
        }
        self.worked += 1;
        self.may_follow_policy &= !follows_policy;
        if is_repaired { CommitStep::Repair } else { CommitStep::Judge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps after a row of checks: `m` snapshot changed, `M` the same with facts that take long, `s` feasible as judged,
    /// `l` other facts, `c` infeasible, `p` partly feasible, `n` infeasible and not repairable. `f` where facts are derived
    /// under the lock.
    fn done(checks: &str) -> String {
        let mut attempts = CommitAttempts::new();
        let mut done = String::new();
        for check in checks.chars() {
            if matches!(check, 'm' | 'M') {
                let is_under_lock = attempts.derive_under_lock(check == 'm');
                done.push(match (is_under_lock, attempts.record_stale_derivation()) {
                    (true, _) => 'f',
                    (false, true) => '-',
                    (false, false) => '!',
                });
                continue;
            }
            let next = attempts.next(match check {
                's' => Recheck::Judged,
                'l' => Recheck::PolicyChanged,
                'p' => Recheck::Partial,
                _ => Recheck::Infeasible,
            });
            if check == 'n' && next == CommitStep::Repair {
                attempts.cannot_repair();
            }
            done.push(match next {
                CommitStep::Commit => 'C',
                CommitStep::Wait => 'W',
                CommitStep::Repair => 'M',
                CommitStep::Judge => 'J',
                CommitStep::GiveUp => '!',
            });
        }
        done
    }

    #[test]
    fn only_plans_that_were_judged_are_committed() {
        for (checks, expected) in [
            ("s", "C"),
            ("ls", "JC"),
            ("ll", "JC"),
            ("ccs", "WMC"),
            ("ns", "WC"),
            ("nns", "WMC"),
            ("nnn", "WMC"),
            ("nnp", "WMJ"),
            // A plan that conflicts each time is planned again; its rest is never committed without a judgement.
            ("ccccccc", "WMMMMMC"),
            ("ccccccp", "WMMMMM!"),
            // The plan is finally feasible, but under other facts than those it was judged with.
            ("ccccccl", "WMMMMMC"),
            // After two stale derivations the facts are derived under the lock, and ahead once more after a wait.
            ("mmmmcmmmcs", "--ffW-ffMC"),
            // Facts that take long are never derived under the lock.
            ("MMMMM", "----!"),
            ("MMMcMMMcs", "---W---MC"),
            ("MMm", "--f"),
        ] {
            assert_eq!(done(checks), expected, "{checks}");
        }
    }
}
