//! `plimsoll plan`: which delta and R to set, by the paper's model; `plan evaluate` looks at one setting.

mod evaluate;
mod inputs;
mod running;
mod search;

use std::process::ExitCode;

use anyhow::Result;
use plimsoll_model::{ModelError, Rule};

use crate::{
    Usage,
    args::{Plan, PlanCommand, RuleArg},
};

pub(crate) fn plan(args: &Plan) -> Result<ExitCode> {
    match &args.command {
        Some(PlanCommand::Evaluate(evaluate)) => evaluate::evaluate(evaluate),
        None => search::search(&args.search),
    }
}

/// What the model refuses is what the user wrote: exit code 2.
fn usage(error: ModelError) -> anyhow::Error {
    Usage(error.to_string()).into()
}

impl From<RuleArg> for Rule {
    fn from(rule: RuleArg) -> Self {
        match rule {
            RuleArg::Edge => Self::Edge,
            RuleArg::Centred => Self::Centred,
        }
    }
}
