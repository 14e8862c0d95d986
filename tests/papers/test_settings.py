from vse_pipe.papers.catalogue import Settings, merged


def test_later_settings_win_value_by_value():
    found = merged(
        [
            Settings(dataset="coco", loss="hal", options={"loss": {"gamma": 30.0, "eps": 0.3}}, train={"lr": 1.0}),
            Settings(options={"loss": {"eps": 0.7}}, train={"epochs": 3}),
        ]
    )
    assert found.options == {"loss": {"gamma": 30.0, "eps": 0.7}}
    assert found.train == {"lr": 1.0, "epochs": 3}
    assert (found.dataset, found.loss) == ("coco", "hal")


def test_another_member_drops_the_options_of_the_one_it_replaces_and_no_others():
    first = Settings(loss="hal", text="gru", options={"loss": {"gamma": 30.0}, "text": {"word_dim": 300}})
    found = merged([first, Settings(loss="sum", options={"loss": {"margin": 0.2}})])
    assert found.options == {"loss": {"margin": 0.2}, "text": {"word_dim": 300}}
    assert merged([first, Settings(loss="hal")]).options == first.options


def test_values_of_criteria_merge_as_well():
    literal, sided = {"rgm": {"mode": "literal"}}, {"rgm": {"lam": 2.0}, "csls": {"two_sided": False}}
    found = merged([Settings(inference=literal), Settings(inference=sided)])
    assert found.inference == {"rgm": {"mode": "literal", "lam": 2.0}, "csls": {"two_sided": False}}


def test_null_takes_a_value_back():
    found = merged([Settings(train={"lr": 1.0, "optimiser": "sgd"}), Settings(train={"optimiser": None})])
    assert found.train == {"lr": 1.0}


def test_a_node_replaces_the_earlier_one_whole():
    ten = {"name": "ten", "backbone": "vgg19", "crops": "ten"}
    found = merged([Settings(features=ten), Settings(features={"name": "one", "backbone": "vgg19"})])
    assert found.features == {"name": "one", "backbone": "vgg19"}


def test_the_layers_stay_as_they_are():
    first = Settings(loss="hal", options={"loss": {"gamma": 30.0}}, train={"lr": 1.0})
    merged([first, Settings(options={"loss": {"gamma": 60.0}}, train={"lr": 2.0})])
    assert (first.options, first.train) == ({"loss": {"gamma": 30.0}}, {"lr": 1.0})
