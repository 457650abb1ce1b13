"""An agent that works on a small project, with the file tools that ship."""

import forkpoint as fp
from forkpoint.demo.programmer import Programmer
from forkpoint.workspace.tools import file_tools

# Each run gets the tools of its own folder. Commands would ask a person before they run; here they are allowed
# beforehand, because the folder is made for this.
agent = fp.Agent(
    "coder",
    # Programmer follows rules and needs no network; for a real model, say model="openai:gpt-5" here.
    model=Programmer(),
    instructions="Work on the project in your folder. Run the tests before and after you change something.",
    tools=[*file_tools(approve_shell=False)],
)
