"""The root of the tests: being here puts ``given`` on the path of every test below."""
