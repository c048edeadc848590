//! Why a `Jit` compiles again, and the limits that turn it into an error.

use super::call_key::CallKey;
use super::creation::{self, CreatedAgain};
use super::history::{Differences, History, is_storm};
use super::jit::{CompileRequest, Found, Jit};
use crate::core::options::EXPLAIN_CACHE_MISSES;
use crate::core::{CompileLimit, Error, Recompilation, SealedError, monitoring};
use crate::tree::{Args, Tree};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

impl<A: Args, O: Tree> Jit<'_, A, O> {
    /// Makes a call that would compile the function again an error, once a signature was compiled:
    /// by the first call, or by `compile_ahead`, which stays allowed.
    ///
    /// A step that is compiled again in the middle of a run costs seconds to minutes, and a loop
    /// that compiles at each step never ends. The error names the leaf, axis, old and new value,
    /// and the line of the call. Nothing is donated: the arguments are returned in the error. A
    /// signature that was dropped ([`cache_size`](Jit::cache_size)) is an error too. Inside another
    /// trace the function becomes part of that program and nothing is compiled.
    ///
    /// ```
    /// use oxidax::jit::RecompilationCause;
    /// use oxidax::prelude::*;
    /// let step = jit(|w: Array, x: &Array| &w - &x.mean_axes([0])).sealed();
    /// let w = step.call(zeros([3]), &ones([32, 3]))?; // compiles
    /// let failed = step.call(w, &ones([24, 3])).unwrap_err(); // the last batch is smaller
    /// let Error::Sealed(error) = &failed.error else { panic!("{failed}") };
    /// let leaf = "$[1]".to_string();
    /// let smaller = RecompilationCause::Axis { leaf, axis: 0, old: 32, new: 24 };
    /// assert_eq!(error.refused.causes, [smaller]);
    /// let w = failed.args.0.expect("it is not lost");
    /// step.compile_ahead(&w, &ones([24, 3]))?;
    /// step.call(w, &ones([24, 3]))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.limit = Some(CompileLimit::Sealed);
        self
    }

    /// Makes a call that would compile a signature beyond the first `count` an error, as
    /// [`sealed`](Jit::sealed) does.
    ///
    /// Signatures of `compile_ahead`, which stays allowed, count. A signature that was dropped may
    /// be compiled again: it is not a new one.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let sum = jit(|x: Array| x.sum()).max_specializations(2);
    /// for n in [8, 16, 8] {
    ///     sum.call(ones([n]))?;
    /// }
    /// let error = sum.call(ones([15])).unwrap_err().to_string();
    /// assert!(error.contains("signature 3 of at most 2: $[0]: axis 0 has size 15, was 16"));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn max_specializations(mut self, count: usize) -> Self {
        self.limit = Some(CompileLimit::MaxSpecializations(count));
        self
    }

    /// Returns the recompilations so far with their reasons, oldest first: the latest 64.
    ///
    /// A recompilation is any compilation but the first, by a call or ahead of it, and the first of
    /// a `Jit` if another one of the same line had compiled an equal signature. Each is logged
    /// through `tracing`, target `oxidax::jit`: the 4th, 8th, 16th, … by a call as a warning, the
    /// others at level `debug`. See docs/caching.md.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let scale = jit(|x: Array, factor: Array| x * factor);
    /// scale.call(ones([3]), 2.0)?;
    /// scale.call(ones([3]), full([], 2.0_f32))?;
    /// let reason = scale.recompilations()[0].reason();
    /// assert_eq!(reason, "$[1]: strongly typed, was weakly typed");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax_explain_cache_misses")]
    #[doc(alias = "jax_log_compiles")]
    pub fn recompilations(&self) -> Vec<Recompilation> {
        self.history().recompilations()
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if a call with this key must not compile.
    pub(super) fn check_limit(&self, key: &CallKey, request: CompileRequest) -> Result<(), Error> {
        let Some(limit) = self.limit.filter(|_| !request.is_ahead) else { return Ok(()) };
        let history = self.history();
        if !history.is_refused(limit, key) {
            return Ok(());
        }
        let differences = history.differences(key, self.cache.capacity());
        let compilations = history.compilations() + 1;
        let refused = self.recompilation(differences, compilations, Duration::ZERO, request);
        Err(Error::Sealed(Box::new(SealedError::new(limit, refused))))
    }

    fn recompilation(
        &self,
        differences: Option<Differences>,
        compilations: u64,
        duration: Duration,
        request: CompileRequest,
    ) -> Recompilation {
        let (mut causes, earlier) = match differences {
            Some(Differences { causes, earlier }) => (causes, earlier),
            None => Default::default(),
        };
        let omitted = causes.len().saturating_sub(Recompilation::MAX_CAUSES);
        causes.truncate(Recompilation::MAX_CAUSES);
        Recompilation {
            function: self.name.to_string(),
            call_site: request.loc,
            created: self.creation.loc,
            earlier,
            causes,
            omitted,
            compilations,
            is_ahead: request.is_ahead,
            duration,
        }
    }

    /// Remembers a compilation, and reports why it was necessary if it was not the first. Called
    /// without a lock.
    pub(super) fn note_found(&self, found: &mut Found<O>, request: CompileRequest) {
        let Some((captured, duration)) = found.compiled.take() else { return };
        let key = found.slot.key();
        let again = creation::note(self.creation, key, captured, request.loc);
        let mut is_warning = again.as_ref().is_some_and(|again| is_storm(again.times));
        let mut history = self.history();
        let own = history.differences(key, self.cache.capacity());
        history.push(key, request.loc);
        let compilations = history.compilations();
        // A new `Jit` of a loop compiles all its signatures again: the loop is the reason.
        let differences = match (own, again) {
            (_, Some(CreatedAgain { causes, earlier, .. })) => {
                Some(Differences { causes, earlier })
            }
            (own, None) => own,
        };
        let recompilation = differences.map(|differences| {
            self.recompilation(Some(differences), compilations, duration, request)
        });
        if let Some(recompilation) = &recompilation {
            is_warning |= history.push_recompilation(recompilation);
        }
        drop(history);
        if let Some(recompilation) = recompilation {
            log(&recompilation, is_warning || EXPLAIN_CACHE_MISSES.get());
        }
        if monitoring::is_active() {
            let metadata = [("fun_name", (&*self.name).into())];
            monitoring::record_scalar("/oxidax/jit/programs", compilations as f64, &metadata);
        }
    }
}

/// Logs a recompilation and records its event.
fn log(recompilation: &Recompilation, is_warning: bool) {
    let Recompilation { function, call_site, created, compilations, duration, .. } = recompilation;
    let reason = recompilation.reason();
    let remedy = recompilation.remedies().join("; ");
    if is_warning {
        tracing::warn!(
            target: "oxidax::jit",
            function,
            at = %call_site,
            %created,
            compilations,
            ?duration,
            reason,
            remedy,
            "compiled again"
        );
    } else {
        tracing::debug!(
            target: "oxidax::jit",
            function,
            at = %call_site,
            %created,
            compilations,
            ?duration,
            reason,
            remedy,
            "compiled again"
        );
    }
    if monitoring::is_active() {
        let metadata = [
            ("fun_name", function.as_str().into()),
            ("reason", reason.into()),
            ("call_site", call_site.to_string().into()),
        ];
        monitoring::record_event("/oxidax/jit/recompilation", &metadata);
    }
}
