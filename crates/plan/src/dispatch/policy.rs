//! The policies by name.

/// How items are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// CPU workers only.
    Cpu,
    /// Modules only.
    Module,
    /// Items are dealt in turn.
    RoundRobin,
    /// Items are dealt in proportion to speed.
    Weighted,
    /// One queue; workers poll it without sleeping.
    Polling,
    /// One queue: the policy of the paper.
    Queue,
    /// By costs, which are updated during the run.
    Best,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 7] =
        [Self::Cpu, Self::Module, Self::RoundRobin, Self::Weighted, Self::Polling, Self::Queue, Self::Best];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Module => "module",
            Self::RoundRobin => "round-robin",
            Self::Weighted => "weighted",
            Self::Polling => "polling",
            Self::Queue => "queue",
            Self::Best => "best",
        }
    }

    /// A description of a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Cpu => "CPU threads only",
            Self::Module => "The module only",
            Self::RoundRobin => "Dealt in turn",
            Self::Weighted => "Dealt in proportion to speed",
            Self::Polling => "One queue, asked without sleeping",
            Self::Queue => "One queue: the paper's",
            Self::Best => "By costs that are measured",
        }
    }

    /// The policy with this name.
    ///
    /// ```
    /// use tobari_plan::dispatch::Policy;
    /// assert!(Policy::ALL.iter().all(|policy| Policy::from_name(policy.name()) == Some(*policy)));
    /// assert_eq!(Policy::from_name("Best"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
