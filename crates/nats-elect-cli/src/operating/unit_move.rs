//! Moves by hand: a unit is given to an instance.

use nats_elect::FencingToken;
use nats_elect::admin::{AdminClient, Instance, ProblemCode};
use serde_json::{Value, json};
use std::time::Duration;

use super::orders::failure_of;
use crate::exit::Failure;

/// What is asked for.
pub struct Request {
    pub group: String,
    pub unit: String,
    /// The id of the instance, or its incarnation.
    pub to: String,
}

/// What came of it.
pub struct Done<'a> {
    request: &'a Request,
    instance: Instance,
    /// The token of its term. Nothing if it owned the unit before.
    taken: Option<FencingToken>,
}

impl Request {
    /// Asks the instance, and waits until it owns the unit. `tell` hears how far it has come.
    pub async fn carry_out(
        &self,
        admin: &AdminClient,
        patience: Duration,
        tell: impl Fn(&str),
    ) -> Result<Done<'_>, Failure> {
        let found = admin.instance(&self.to, patience).await;
        let instance = found.map_err(|error| failure_of(&error))?;
        tell("waiting until the present owner gives it away");
        let taken = admin.take_unit(&instance, &self.group, &self.unit).await;
        let taken = match taken {
            Ok(fence) => Some(fence),
            Err(error) if error.refusal() == Some(ProblemCode::AlreadyThere) => None,
            Err(error) => return Err(Failure::from(&error).advice(advice(error.refusal()))),
        };
        Ok(Done {
            request: self,
            instance,
            taken,
        })
    }
}

impl Done<'_> {
    pub fn json(&self) -> Value {
        json!({
            "group": self.request.group,
            "unit": self.request.unit,
            "instance_id": self.instance.instance_id,
            "incarnation": self.instance.incarnation,
            "moved": self.taken.is_some(),
            "fencing_token": self.taken,
        })
    }

    pub fn words(&self) -> String {
        let (instance, request) = (&self.instance, self.request);
        let (group, unit) = (&request.group, &request.unit);
        match self.taken {
            Some(fence) => format!("{instance} owns unit {unit} of {group} now (token {fence})"),
            None => format!("{instance} owns unit {unit} of {group} already"),
        }
    }
}

const fn advice(refusal: Option<ProblemCode>) -> &'static str {
    match refusal {
        Some(ProblemCode::UnknownUnit) => "`nats-elect group show GROUP --units` lists the units",
        Some(ProblemCode::TakenBack) => {
            "`nats-elect group explain GROUP UNIT` shows what speaks for and against each instance"
        }
        Some(ProblemCode::TakesNone) => {
            "`nats-elect resume ID` ends a cordon; an instance that has only just started takes units a lease later"
        }
        Some(ProblemCode::UnknownGroup) => "`nats-elect group show GROUP` lists its members",
        Some(ProblemCode::NotReady) => {
            "`nats-elect group explain GROUP UNIT` shows what the unit waits for"
        }
        Some(ProblemCode::Busy) => "nothing was done: give the command again in a moment",
        _ => "`nats-elect group explain GROUP UNIT` shows who owns it",
    }
}
