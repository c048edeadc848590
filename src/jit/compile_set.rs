//! Compiling a set of signatures in parallel, before the first call.

use super::call_key::{CallKey, CallScope};
use super::jit::{CompileRequest, Jit};
use super::traced::Staged;
use crate::core::{Error, Loc, trace};
use crate::tree::{Args, Arguments, Examples, Tree};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

impl<A: Args, O: Tree> Jit<'_, A, O> {
    /// Compiles the function for several signatures in parallel, without running it.
    ///
    /// Each is given as for `compile_ahead`: one example for a function of one argument, a tuple of
    /// examples for several. The function is traced on the calling thread, for one signature after
    /// the other and with the settings of this thread's scopes. Then the compiler runs on as many
    /// threads as the machine has processors. Signatures that are compiled already, or listed
    /// twice, are skipped.
    ///
    /// # Errors
    /// As those of `compile_ahead`: the first in the order of the list. If the function cannot be
    /// traced for a signature, none is compiled; if one fails to compile, the others are kept.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let attend = jit(|tokens: Array, mask: Array| where_(mask, tokens, 0.0).sum()).sealed();
    /// let signature = |n: usize| (Aval::new(DType::F32, [n]), Aval::new(DType::Bool, [n]));
    /// attend.compile_ahead_all([64, 128, 256].map(signature))?;
    /// assert_eq!(attend.stats().compiles, 3);
    /// // From now on only these lengths are served, and none of them compiles.
    /// attend.call(ones([128]), full([128], true))?;
    /// assert!(attend.call(ones([100]), full([100], true)).is_err());
    /// assert_eq!(attend.stats().compiles, 3);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn compile_ahead_all<E: Examples<A>>(
        &self,
        signatures: impl IntoIterator<Item = E>,
    ) -> Result<(), Error> {
        if trace::jit_disabled() {
            return Ok(());
        }
        let request = CompileRequest { loc: Loc::caller(), is_ahead: true };
        let scope = CallScope::current()?;
        let mut keys: Vec<CallKey> = Vec::new();
        let mut waiting = Vec::new();
        for example in signatures {
            let arguments = example.examples();
            let key = CallKey::of(&Arguments::<A>(arguments.refs()), scope);
            let is_compiled = self.cache.get(key.hash(), |other| other.equals(&key)).is_some();
            if is_compiled || keys.iter().any(|other| other.equals(&key)) {
                continue;
            }
            let staged = self.stage(arguments.refs()).map_err(|error| error.at(request.loc))?;
            waiting.push((arguments, Mutex::new(Some(staged))));
            keys.push(key);
        }
        self.compile_all(&waiting, scope, request)
    }

    /// Compiles staged functions on several threads.
    fn compile_all(
        &self,
        waiting: &[(A, Mutex<Option<Staged<O>>>)],
        scope: CallScope,
        request: CompileRequest,
    ) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let outcomes: Vec<_> = waiting.iter().map(|_| Mutex::new(None)).collect();
        let compile_next = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some((arguments, staged)) = waiting.get(index) else { break };
                let staged = staged.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(staged) = staged else { continue };
                let compile = || self.load(staged);
                let outcome = self.find_or_compile(arguments.refs(), scope, request, compile);
                *outcomes[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(waiting.len());
        thread::scope(|threaded| {
            for _ in 0..threads {
                threaded.spawn(|| scope.compile.scope(compile_next));
            }
        });
        let mut first_error = None;
        for outcome in outcomes {
            match outcome.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(Ok(mut found)) => self.note_found(&mut found, request),
                Some(Err(error)) => first_error = first_error.or(Some(error)),
                None => {}
            }
        }
        first_error.map_or(Ok(()), |error| Err(error.at(request.loc)))
    }
}
