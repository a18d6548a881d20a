// The page: the AI SDK's own chat (the engine of `useChat`) over a transport that reconnects.

import { AbstractChat, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { DurableChatTransport } from "holdfast/chat-transport";

class PageState {
  #messages;
  #status = "ready";
  error = undefined;

  constructor(messages) {
    this.#messages = messages;
  }

  get messages() {
    return this.#messages;
  }

  set messages(messages) {
    this.#messages = messages;
    show(messages);
  }

  get status() {
    return this.#status;
  }

  set status(status) {
    this.#status = status;
    document.querySelector("#status").textContent = status;
  }

  pushMessage = (message) => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, message);
  };
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor({ messages, ...init }) {
    super({ ...init, state: new PageState(messages) });
  }
}

const id = location.hash.slice(1) || "demo";
const { messages } = await (await fetch(`/api/chat/${id}`)).json();

const chat = new Chat({
  id,
  messages,
  transport: new DurableChatTransport({ onRestart: () => chat.resumeStream() }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
});
show(messages);
document.querySelector("#form").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = document.querySelector("#text");
  void chat.sendMessage({ text: input.value });
  input.value = "";
});
// Until here a message would be sent by the browser itself, and be lost.
document.querySelector("#send").disabled = false;
// Joins the answer that is under way, or continues one that a killed server left.
await chat.resumeStream();

function show(messages) {
  const list = messages.map(({ role, parts }) => element("section", role, ...parts.map(partElement)));
  document.querySelector("#messages").replaceChildren(...list);
}

function partElement(part) {
  if (part.type === "text") return element("p", "text", part.text);
  if (part.type === "data-waiting") return element("p", "call", `waits for a person: ${part.data.why}`);
  if (!part.type.startsWith("tool-")) return "";
  const line = element("p", "call", `${part.type.slice(5)} ${JSON.stringify(part.input)}: ${part.state} `);
  if (part.state === "approval-requested")
    for (const approved of [true, false]) {
      const button = element("button", "", approved ? "Approve" : "Deny");
      button.onclick = () => chat.addToolApprovalResponse({ id: part.approval.id, approved });
      line.append(button);
    }
  return line;
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}
