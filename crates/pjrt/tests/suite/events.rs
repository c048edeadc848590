//! Events of asynchronous work.

use std::sync::mpsc;

use oxidax_pjrt::{Code, ExecuteOptions, ffi};

use crate::plugins::{compile, f32_buffer, on_each};

#[test]
fn callbacks_run_once_with_the_outcome() {
    on_each(|client, _| {
        let (sender, receiver) = mpsc::channel();
        let event = f32_buffer(client, &[2], &[1.0, 2.0]).ready_event().expect("an event");
        for number in 0..3 {
            let sender = sender.clone();
            event
                .on_ready(move |outcome| sender.send((number, outcome.is_ok())).expect("heard"))
                .expect("taken");
        }
        drop(sender);
        let mut heard: Vec<_> = receiver.iter().collect();
        heard.sort_unstable();
        assert_eq!(heard, [(0, true), (1, true), (2, true)]);
    });
}

#[test]
fn a_panic_in_a_callback_is_caught() {
    on_each(|client, _| {
        let (sender, receiver) = mpsc::channel();
        let event = f32_buffer(client, &[2], &[1.0, 2.0]).ready_event().expect("an event");
        event
            .on_ready(move |_| {
                sender.send(()).expect("heard");
                panic!("in a callback");
            })
            .expect("taken");
        receiver.recv().expect("the callback ran");
        event.wait().expect("the event is fine");
    });
}

#[test]
fn an_event_may_outlive_its_buffer() {
    on_each(|client, _| {
        let event = f32_buffer(client, &[2], &[1.0, 2.0]).ready_event().expect("an event");
        let clone = event.clone();
        drop(event);
        clone.wait().expect("ready");
        assert!(format!("{clone:?}").contains("is_ready: Some(true)"));
    });
}

#[test]
fn errors_of_work_reach_every_reader() {
    on_each(|client, _| {
        ffi::register(client, "test.late_failure", |_| Err("late".to_owned())).expect("registered");
        // The product is large enough that the call returns before the handler has run.
        let text = "func.func @main(%x: tensor<700x700xf32>) -> (tensor<700x700xf32>, tensor<700x700xf32>) {
            %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<700x700xf32>, tensor<700x700xf32>) -> tensor<700x700xf32>
            %1 = stablehlo.custom_call @test.late_failure(%0) {api_version = 4 : i32} : (tensor<700x700xf32>) -> tensor<700x700xf32>
            return %0, %1 : tensor<700x700xf32>, tensor<700x700xf32> }";
        let executable = compile(client, text);
        let x = f32_buffer(client, &[700, 700], &vec![1.0; 700 * 700]);
        match executable.execute_with_event(&[&x], &ExecuteOptions::default()) {
            Err(error) => assert!(error.to_string().contains("late"), "{error}"),
            Ok((results, event)) => {
                let error = event.wait().expect_err("failed");
                assert!(error.to_string().contains("late"), "{error}");
                assert_eq!(event.error().expect("known").and_then(|e| e.code()), error.code());
                assert!(error.code().is_some_and(|code| code != Code::Unimplemented));
                for result in &results {
                    assert!(result.to_vec().expect_err("poisoned").to_string().contains("late"));
                    assert!(result.host_view().is_err());
                    let (sender, receiver) = mpsc::channel();
                    let event = result.ready_event().expect("an event");
                    event
                        .on_ready(move |outcome| sender.send(outcome.is_err()).expect("heard"))
                        .expect("taken");
                    assert!(receiver.recv().expect("ran"));
                }
                // A program that takes a failed result fails too.
                assert!(
                    executable
                        .execute_with_event(&[&results[0]], &ExecuteOptions::default())
                        .and_then(|(_, event)| event.wait())
                        .is_err()
                );
            }
        }
    });
}
