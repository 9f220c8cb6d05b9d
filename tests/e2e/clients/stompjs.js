// What `@stomp/stompjs` makes of the relay, in Node and in a browser: each of `talks` resolves to what it saw.
"use strict";

// A client that is connected. It is told by `told` what the test waits for; it must not lose its WebSocket.
function connected(Client, url, options) {
  return new Promise((resolve, reject) => {
    const connectHeaders = { login: "guest", passcode: "guest" };
    const client = new Client({ brokerURL: url, reconnectDelay: 0, connectHeaders, ...options });
    client.closes = [];
    client.onConnect = (frame) => resolve([client, frame]);
    client.onStompError = (frame) => reject(new Error(`ERROR ${frame.headers.message}: ${frame.body}`));
    client.onWebSocketClose = (event) => {
      client.closes.push(event.code);
      reject(new Error(`closed with ${event.code}`));
    };
    client.activate();
  });
}

// The next messages of a subscription, one promise each.
function queue(client, destination, headers) {
  const came = [];
  const awaited = [];
  const subscription = client.subscribe(
    destination,
    (message) => (awaited.length ? awaited.shift()(message) : came.push(message)),
    headers,
  );
  return { subscription, next: () => new Promise((done) => (came.length ? done(came.shift()) : awaited.push(done))) };
}

function receipt(client, act) {
  const id = `r${Math.random()}`;
  return new Promise((done) => {
    client.watchForReceipt(id, done);
    act({ receipt: id });
  });
}

const talks = {
  async hello(Client, url) {
    const [client, frame] = await connected(Client, url);
    const { subscription, next } = queue(client, "/queue/hello");
    await receipt(client, (headers) => client.publish({ destination: "/queue/hello", body: "grüße", headers }));
    const message = await next();
    await receipt(client, (headers) => subscription.unsubscribe(headers));
    await client.deactivate();
    return { version: frame.headers.version, body: message.body, closes: client.closes };
  },

  async acks(Client, url) {
    const seen = {};
    for (const ack of ["auto", "client", "client-individual"]) {
      const destination = `/queue/${ack}`;
      const [client] = await connected(Client, url);
      const { next } = queue(client, destination, { ack });
      for (let at = 0; at < 3; at += 1) client.publish({ destination, body: `${at}` });
      const messages = [await next(), await next(), await next()];
      if (ack === "client") messages[1].ack();
      if (ack === "client-individual") messages[1].ack();
      await receipt(client, (headers) => client.publish({ destination: "/queue/other", body: "", headers }));
      await client.deactivate();
      const [after] = await connected(Client, url);
      const rest = queue(after, destination);
      after.publish({ destination, body: "end" });
      seen[ack] = [];
      for (let body = ""; body !== "end"; seen[ack].push(body)) body = (await rest.next()).body;
      await after.deactivate();
    }
    return seen;
  },

  async transactions(Client, url) {
    const [client] = await connected(Client, url);
    const { next } = queue(client, "/queue/tx");
    const aborted = client.begin();
    client.publish({ destination: "/queue/tx", body: "aborted", headers: { transaction: aborted.id } });
    aborted.abort();
    const committed = client.begin();
    client.publish({ destination: "/queue/tx", body: "committed", headers: { transaction: committed.id } });
    client.publish({ destination: "/queue/tx", body: "outside" });
    const first = (await next()).body;
    committed.commit();
    const second = (await next()).body;
    await client.deactivate();
    return [first, second];
  },

  async large(Client, url) {
    const [client] = await connected(Client, url);
    const { next } = queue(client, "/queue/large");
    const body = "0123456789abcdef".repeat(327680);
    client.publish({ destination: "/queue/large", body });
    const text = (await next()).body === body;
    const binary = new Uint8Array(5 * 1024 * 1024).map((_, at) => (at * 7) % 256);
    client.publish({ destination: "/queue/large", binaryBody: binary });
    const back = (await next()).binaryBody;
    const split = await connected(Client, url, { splitLargeFrames: true, maxWebSocketChunkSize: 1000 });
    split[0].publish({ destination: "/queue/large", body: body.slice(0, 100000) });
    const pieces = (await next()).body === body.slice(0, 100000);
    await split[0].deactivate();
    await client.deactivate();
    return { text, binary: back.length === binary.length && back.every((byte, at) => byte === binary[at]), pieces };
  },

  async beats(Client, url) {
    const beats = { sent: 0, received: 0 };
    const [client, frame] = await connected(Client, url, {
      heartbeatIncoming: 200,
      heartbeatOutgoing: 200,
      debug: (line) => {
        if (line === ">>> PING") beats.sent += 1;
        if (line === "<<< PONG") beats.received += 1;
      },
    });
    while (beats.sent < 5 || beats.received < 5) await new Promise((done) => setTimeout(done, 20));
    const alive = client.connected && !client.closes.length;
    await client.deactivate();
    return { agreed: frame.headers["heart-beat"], alive };
  },

  // Says "ready", then the body of each message until "end".
  async failover(Client, url, told) {
    const [client] = await connected(Client, url);
    const { next } = queue(client, "/queue/a", { id: "1" });
    told("ready");
    const bodies = [];
    for (let body = ""; body !== "end"; bodies.push(body)) {
      body = (await next()).body;
      told(body);
    }
    const seen = { bodies, closes: client.closes };
    await client.deactivate();
    return seen;
  },

  // What a client that is refused is shown.
  refused(Client, url) {
    return new Promise((done) => {
      const seen = {};
      const client = new Client({ brokerURL: url, reconnectDelay: 0 });
      client.onStompError = (frame) => (seen.error = frame.headers.message);
      client.onWebSocketClose = (event) => done({ ...seen, close: event.code });
      client.activate();
    });
  },

  // Connects by the first of two tokens, which stand behind the URL's #, and shows the other one; stays until it ends.
  renews(Client, url) {
    const [place, tokens] = url.split("#");
    const [first, second] = tokens.split(",");
    return new Promise((done) => {
      const seen = {};
      const client = new Client({ brokerURL: place, reconnectDelay: 0, connectHeaders: { passcode: first } });
      client.onConnect = async () => {
        await receipt(client, (headers) =>
          client.publish({ destination: "/relay/token", headers: { passcode: second, ...headers } }),
        );
        seen.taken = true;
      };
      client.onStompError = (frame) => (seen.error = frame.headers.message);
      client.onWebSocketClose = () => done(seen);
      client.activate();
    });
  },

  // Says "ready" each time that it is connected, by its own reconnecting; until a message "end" comes. A page may name
  // another destination.
  reconnects(Client, url, told) {
    return new Promise((done) => {
      const destination = globalThis.destination || "/queue/stompjs";
      const closes = [];
      const connectHeaders = { login: "guest", passcode: "guest" };
      const client = new Client({ brokerURL: url, reconnectDelay: 100, connectHeaders });
      client.onConnect = () => {
        client.subscribe(destination, async (message) => {
          told(message.body);
          if (message.body !== "end") return;
          await client.deactivate();
          done({ closes });
        });
        receipt(client, (headers) => client.publish({ destination: "/queue/other", body: "", headers })).then(() =>
          told("ready"),
        );
      };
      client.onWebSocketClose = (event) => closes.push(event.code);
      client.activate();
    });
  },
};

if (typeof window === "undefined") {
  const { Client } = require("@stomp/stompjs");
  Object.assign(global, { WebSocket: require("ws") });
  const [name, url] = process.argv.slice(2);
  talks[name](Client, url, (word) => console.log(JSON.stringify(word))).then(
    (seen) => {
      console.log(JSON.stringify(seen));
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}
