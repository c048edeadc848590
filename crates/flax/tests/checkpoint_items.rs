//! Items of checkpoints and their handlers.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod on_cpu {
    use oxidax::prelude::*;
    use oxidax::random::{self, KeyImpl, KeyOptions};
    use oxidax_flax::checkpoint::{
        ArrayCheckpointHandler, CheckpointHandler, CheckpointItems, CheckpointManager,
        CheckpointManagerOptions, JsonCheckpointHandler, KeyCheckpointHandler,
        StandardCheckpointHandler,
    };
    use std::collections::BTreeMap;

    type Pair = (Array, Vec<Array>);

    fn pair() -> Pair {
        (array![1f32, 2.5], vec![zeros(([2, 2], DType::I32)), ones(([], DType::BF16))])
    }

    fn open(path: &std::path::Path, options: CheckpointManagerOptions) -> CheckpointManager {
        CheckpointManager::new(path, options).unwrap()
    }

    #[test]
    fn each_item_is_restored_by_its_handler() {
        let folder = tempfile::tempdir().unwrap();
        let mut manager = open(folder.path(), CheckpointManagerOptions::new());
        let (state, json) = (StandardCheckpointHandler::new(pair()), JsonCheckpointHandler::new());
        let notes = BTreeMap::from([("rate".to_owned(), 0.1), ("decay".to_owned(), 1e-300)]);
        let key = random::key_with(5, KeyOptions { implementation: KeyImpl::Rbg });
        let items = || {
            let items = CheckpointItems::new().item("state", &state, &pair())?;
            let items =
                items.item("notes", &json, &notes)?.item("key", &KeyCheckpointHandler, &key)?;
            items.item("mean", &ArrayCheckpointHandler, &array![[3f64, 4.0]])
        };
        assert!(manager.save_items(3, items().unwrap(), &[("loss", 0.5)]).unwrap());
        manager.close().unwrap();
        let mut manager = open(folder.path(), CheckpointManagerOptions::new());
        assert_eq!(manager.metrics(3).unwrap()["loss"], 0.5);
        assert_eq!(manager.item_names(3).unwrap(), ["key", "mean", "notes", "state"]);
        assert_eq!(manager.restore_item(3, "notes", &json).unwrap(), notes);
        let found = manager.restore_item(3, "state", &state).unwrap();
        assert_eq!(found.0.to_vec::<f32>().unwrap(), [1.0, 2.5]);
        assert_eq!((found.1[0].dtype(), found.1[1].dtype()), (DType::I32, DType::BF16));
        let found = manager.restore_item(3, "mean", &ArrayCheckpointHandler).unwrap();
        assert_eq!(found.aval().to_string(), "f64[1,2]");
        let found = manager.restore_item(3, "key", &KeyCheckpointHandler).unwrap();
        assert_eq!(found.implementation(), KeyImpl::Rbg);
        let words = |key: &random::Key| key.data().to_vec::<u32>().unwrap();
        assert_eq!(words(&found), words(&key));
    }

    #[test]
    fn narrow_items_have_the_dtypes_of_the_template() {
        let folder = tempfile::tempdir().unwrap();
        let options = CheckpointManagerOptions::new().save_dtype(DType::BF16);
        let mut manager = open(folder.path(), options);
        let handler = StandardCheckpointHandler::new(array![1.5f32, -2.0]);
        let items = CheckpointItems::new().item("w", &handler, &array![1.5f32, -2.0]).unwrap();
        manager.save_items(1, items, &[]).unwrap();
        let found = manager.restore_item(1, "w", &handler).unwrap();
        assert_eq!(found.to_vec::<f32>().unwrap(), [1.5, -2.0]);
        let stored = manager.restore_item(1, "w", &ArrayCheckpointHandler).unwrap();
        assert_eq!(stored.dtype(), DType::BF16);
    }

    #[test]
    fn errors_name_the_item() {
        fn message<T>(result: Result<T, Error>) -> String {
            result.err().unwrap().to_string()
        }
        let folder = tempfile::tempdir().unwrap();
        let mut manager = open(folder.path(), CheckpointManagerOptions::new());
        let state = StandardCheckpointHandler::new(pair());
        let items = CheckpointItems::new().item("state", &state, &pair()).unwrap();
        manager.save_items(1, items, &[]).unwrap();
        manager.wait_until_finished().unwrap();
        let text = message(manager.restore_item(1, "model", &state));
        assert!(text.contains("no item `model`; the items are [\"state\"]"), "{text}");
        let text = message(manager.restore_item(1, "state", &ArrayCheckpointHandler));
        assert!(text.contains("the item `state` is not one array"), "{text}");
        let other = StandardCheckpointHandler::new((ones([2]), ones([3])));
        let text = message(manager.restore_item(1, "state", &other));
        assert!(text.contains("the item `state` does not have the array `[1]`"), "{text}");
        let text = message(manager.restore_item(1, "state", &KeyCheckpointHandler));
        assert!(text.contains("the JSON of the item `state`"), "{text}");
        let text = message(CheckpointItems::new().item("a/b", &state, &pair()));
        assert!(text.contains("do not contain slashes"), "{text}");
        let contents = ArrayCheckpointHandler.save(&ones([2])).unwrap();
        assert_eq!(contents.arrays().len(), 1);
    }
}
