//! What is done with a plan each time that it was looked at in the newest world, until it is committed or made again.

/// So often it is worked out before the lock what a program derives of the newest world; where the world changes faster, under
/// it.
const AHEAD: u32 = 2;
/// So often a plan is mended or judged anew before it is made again.
const WORKS: u32 = 5;

/// What a look at a plan showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It stands as it was judged.
    Judged,
    /// So it does, and the policy says another thing than where it was judged.
    UnderAnotherLaw,
    /// It stands, and is another plan than was judged.
    Unjudged,
    /// What collides with what is there now is left out of it.
    InPart,
    /// It collides, and nothing of it is kept.
    Lost,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is committed as it is, or known not to hold.
    Commit,
    /// Others that collided come first.
    Wait,
    /// What collided is placed again.
    Mend,
    /// It is judged before it is committed.
    Judge,
    /// It is made again.
    GiveUp,
}

/// What was done with a plan so far.
#[derive(Debug)]
pub struct Tries {
    /// Whether what is made of the plan is judged before it is committed.
    is_judged: bool,
    /// How often what collides may still be placed again.
    mends: u32,
    may_follow_law: bool,
    has_waited: bool,
    /// How often the world was another one than was looked at ahead.
    missed: u32,
    worked: u32,
}

impl Tries {
    /// Nothing was done yet.
    pub fn new(is_judged: bool) -> Self {
        Self { is_judged, mends: WORKS, may_follow_law: true, has_waited: false, missed: 0, worked: 0 }
    }

    /// Whether the world changes faster than it can be worked out what a program derives of it.
    pub fn is_too_fast(&self) -> bool {
        self.missed >= AHEAD
    }

    /// The world was another one than was looked at ahead.
    pub fn missed(&mut self) {
        self.missed += 1;
    }

    /// What collided can be placed again by a search alone.
    pub fn cannot_mend(&mut self) {
        self.mends = 0;
    }

    /// What is done with a plan of which a look has shown this.
    ///
    /// One that is as it was judged is committed in the end, whatever else a policy says by then; one that is not is never.
    pub fn next(&mut self, shown: Shown) -> Next {
        let may_work = self.worked < WORKS;
        let is_mended = matches!(shown, Shown::InPart | Shown::Lost) && self.mends > 0 && may_work;
        let is_judged_first = self.is_judged
            && match shown {
                Shown::Unjudged | Shown::InPart => true,
                Shown::UnderAnotherLaw => self.may_follow_law && may_work,
                Shown::Judged | Shown::Lost => false,
            };
        if !is_mended && !is_judged_first {
            return Next::Commit;
        }
        if !may_work {
            return Next::GiveUp;
        }
        let follows_law = shown == Shown::UnderAnotherLaw;
        if self.is_judged && !follows_law && !self.has_waited {
            self.has_waited = true;
            // Whoever came first has changed the world, and nobody else of those who collide does from now on.
            self.missed = self.missed.min(AHEAD - 1);
            return Next::Wait;
        }
        self.worked += 1;
        self.may_follow_law &= !follows_law;
        if is_mended { Next::Mend } else { Next::Judge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is done in a row of looks: `m` the world was another one than was looked at ahead, `s` it stands as it was judged, `l` so and
    /// the law is another, `u` it stands and was not judged, `c` it collides, `p` it is kept in part, `n` it collides and cannot be
    /// mended. Answers `f` where it is worked out under the lock what a program derives.
    fn done(looks: &str, is_judged: bool) -> String {
        let mut tries = Tries::new(is_judged);
        let mut done = String::new();
        for look in looks.chars() {
            if look == 'm' {
                done.push(if tries.is_too_fast() { 'f' } else { '-' });
                tries.missed();
                continue;
            }
            let next = tries.next(match look {
                's' => Shown::Judged,
                'l' => Shown::UnderAnotherLaw,
                'u' => Shown::Unjudged,
                'p' => Shown::InPart,
                _ => Shown::Lost,
            });
            if look == 'n' && next == Next::Mend {
                tries.cannot_mend();
            }
            done.push(match next {
                Next::Commit => 'C',
                Next::Wait => 'W',
                Next::Mend => 'M',
                Next::Judge => 'J',
                Next::GiveUp => '!',
            });
        }
        done
    }

    #[test]
    fn a_plan_that_was_judged_and_stands_is_committed_and_no_other() {
        for (looks, is_judged, expected) in [
            ("s", true, "C"),
            ("c", false, "M"),
            ("ls", true, "JC"),
            ("ll", true, "JC"),
            ("ccs", true, "WMC"),
            ("ns", true, "WC"),
            ("nns", true, "WMC"),
            ("nnn", true, "WMC"),
            ("nnp", true, "WMJ"),
            // It collides each time: it is made again, and what is left of it is never committed unjudged.
            ("ccccccc", true, "WMMMMMC"),
            ("ccccccp", true, "WMMMMM!"),
            // It stands at last, under another law than where it was judged last.
            ("ccccccl", true, "WMMMMMC"),
            // Who misses twice works it out under the lock, and once more ahead where others came first.
            ("mmmmcmmmcs", true, "--ffW-ffMC"),
        ] {
            assert_eq!(done(looks, is_judged), expected, "{looks}");
        }
    }
}
