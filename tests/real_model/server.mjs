// OpenAI Chat Completions, streamed or not, over a real model on this machine: `node server.mjs PACKAGES MODEL`.
//
// It listens on 127.0.0.1, says its port as one line of JSON once it can be asked, and ends when its stdin does.
// GET /requests tells what it was asked, what it said, and whether whoever asked had left by then. Between POST /hold
// and POST /release a streamed answer in words has no end until whoever asked leaves, so that they leave within it.
//
// A model this small does not decide well whether to call a tool, so a grammar decides it: where tools are offered, a
// user's message is met by a call, and a call's result by an answer. Which tool, its arguments and every word of the
// answer are the model's. Each request starts from an empty cache, so that equal requests get equal answers.

import {createServer} from "node:http";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const [packages, file] = process.argv.slice(2);
const {getLlama, LlamaCompletion} = await import(
    pathToFileURL(join(packages, "node_modules", "node-llama-cpp", "dist", "index.js")).href
);

const llama = await getLlama({gpu: false, build: "never", skipDownload: true, progressLogs: false, logLevel: "error"});
const model = await llama.loadModel({modelPath: file});
const context = await model.createContext({contextSize: 2048, threads: 2});
const sequence = context.getSequence();
const completion = new LlamaCompletion({contextSequence: sequence});

const requests = [];
let previous = Promise.resolve();
let holding = false;

createServer((request, response) => {
    const path = `${request.method} ${request.url}`;
    if (path === "POST /v1/chat/completions") {
        receive(request, response);
    } else if (path === "GET /requests") {
        send(response, 200, requests);
    } else if (path === "POST /hold" || path === "POST /release") {
        holding = path === "POST /hold";
        send(response, 200, {});
    } else {
        send(response, 404, {error: {message: `no such path: ${path}`}});
    }
}).listen(0, "127.0.0.1", function listening() {
    console.log(JSON.stringify({port: this.address().port}));
});

process.stdin.resume();
process.stdin.on("end", () => process.exit(0));

function receive(request, response) {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (piece) => { body += piece; });
    request.on("end", () => {
        const asked = {number: requests.length + 1, body: JSON.parse(body), said: "", usage: null, left: false};
        const leaving = new AbortController();
        requests.push(asked);
        response.on("close", () => {
            if (!response.writableEnded) {
                asked.left = true;
                leaving.abort();
            }
        });
        // One at a time: there is one cache.
        previous = previous.then(() => answer(asked, response, leaving.signal)).catch((error) => fail(response, error));
    });
}

async function answer(asked, response, signal) {
    const {body} = asked;
    const mustCall = body.tools?.length > 0 && body.messages.at(-1).role === "user";
    const told = body.stream ? streamed(asked, response) : null;
    const prompt = tokens(body);
    await sequence.clearHistory();
    let count = 0;
    const {response: text, metadata} = await completion.generateCompletionWithMeta(prompt, {
        grammar: mustCall ? await grammarOf(body.tools) : undefined,
        maxTokens: body.max_completion_tokens ?? body.max_tokens ?? 256,
        temperature: body.temperature ?? 0,
        seed: body.seed ?? undefined,
        onToken: (more) => { count += more.length; },
        onTextChunk: mustCall || told === null ? undefined : (piece) => told({content: piece}),
        signal,
        stopOnAbortSignal: true
    });
    if (holding && told !== null && !mustCall) {
        await left(signal);
    }
    if (asked.left) {
        return;
    }
    asked.said = text;
    asked.usage = {prompt_tokens: prompt.length, completion_tokens: count, total_tokens: prompt.length + count};
    const calls = mustCall ? [callOf(asked, text)] : undefined;
    const reason = calls ? "tool_calls" : metadata.stopReason === "maxTokens" ? "length" : "stop";
    if (told === null) {
        const message = {role: "assistant", content: calls ? null : text, tool_calls: calls};
        const choice = {index: 0, message, finish_reason: reason};
        send(response, 200, {...head(asked, "chat.completion"), choices: [choice], usage: asked.usage});
        return;
    }
    if (calls) {
        told({tool_calls: calls.map((call, index) => ({index, ...call}))});
    }
    told({}, reason);
    if (body.stream_options?.include_usage) {
        event(response, {...head(asked, "chat.completion.chunk"), choices: [], usage: asked.usage});
    }
    response.end("data: [DONE]\n\n");
}

function left(signal) {
    return new Promise((resolve) => {
        if (signal.aborted) {
            resolve();
        }
        signal.addEventListener("abort", resolve, {once: true});
    });
}

/** A function that sends what is added to the answer. */
function streamed(asked, response) {
    const begun = head(asked, "chat.completion.chunk");
    response.writeHead(200, {"Content-Type": "text/event-stream"});
    event(response, {...begun, choices: [{index: 0, delta: {role: "assistant", content: ""}, finish_reason: null}]});
    return (delta, reason = null) =>
        event(response, {...begun, choices: [{index: 0, delta, finish_reason: reason}]});
}

/** The transcript in the form that the model was trained on. */
function tokens({messages, tools}) {
    const names = {};
    const said = messages.map((message) => {
        for (const call of message.tool_calls ?? []) {
            names[call.id] = call.function.name;
        }
        return turn(message, names);
    });
    if (tools?.length && messages.at(-1).role === "user") {
        said.splice(-1, 0, ["system", `Answer with one call, as JSON. Calls:\n${tools.map(described).join("\n")}`]);
    }
    const special = (text) => model.tokenize(text, true);
    const plain = (text) => model.tokenize(text, false);
    return [
        ...said.flatMap(([role, text]) => [
            ...special("<|im_start|>"), ...plain(`${role}\n${text}`), ...special("<|im_end|>"), ...plain("\n")
        ]),
        ...special("<|im_start|>"), ...plain("assistant\n")
    ];
}

/** Calls are told in words: shown as JSON, a model this small goes on in JSON. */
function turn({role, content, tool_calls: calls, tool_call_id: id}, names) {
    const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
    if (role === "tool") {
        return ["user", `The result of ${names[id]} is ${text}. Tell me in words.`];
    }
    const called = (calls ?? []).map(({function: {name}}) => `I do this: ${name}.`);
    return [role, [text, ...called].filter(Boolean).join(" ")];
}

function described({function: {name, description, parameters}}) {
    return `${name}: ${description ?? ""} Arguments: ${JSON.stringify(parameters.properties ?? {})}`;
}

function grammarOf(tools) {
    return llama.createGrammarForJsonSchema({
        oneOf: tools.map(({function: {name, parameters}}) => ({
            type: "object",
            properties: {name: {const: name}, arguments: parameters}
        }))
    });
}

function callOf({number}, text) {
    const {name, arguments: chosen} = JSON.parse(text);
    return {id: `call_${number}`, type: "function", function: {name, arguments: JSON.stringify(chosen)}};
}

function head({number, body}, object) {
    return {id: `chatcmpl-${number}`, object, created: Math.floor(Date.now() / 1000), model: body.model};
}

function event(response, data) {
    response.write(`data: ${JSON.stringify(data)}\n\n`);
}

function send(response, status, data) {
    response.writeHead(status, {"Content-Type": "application/json"});
    response.end(JSON.stringify(data));
}

function fail(response, error) {
    console.error(error);
    if (response.headersSent) {
        response.destroy();
    } else {
        send(response, 500, {error: {message: String(error), type: "server_error"}});
    }
}
