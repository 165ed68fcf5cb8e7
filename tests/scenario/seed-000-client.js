class ChatClient {
  constructor(url) {
    this.url = url;
    this.ws = null;
    this.pending = new Map();
    this.eventHandlers = new Map();
  }

  connect() {
    return new Promise((resolve, reject) => {
      this.ws = new WebSocket(this.url);

      this.ws.onopen = () => {
        this.send('connect', { clientType: 'web' })
          .then(resolve)
          .catch(reject);
      };

      this.ws.onmessage = (event) => {
        const frame = JSON.parse(event.data);

        if (frame.type === 'res') {
          const handler = this.pending.get(frame.id);
          if (handler) {
            this.pending.delete(frame.id);
            if (frame.ok) {
              handler.resolve(frame.payload);
            } else {
              handler.reject(frame.error);
            }
          }
        } else if (frame.type === 'event') {
          const handlers = this.eventHandlers.get(frame.event) || [];
          handlers.forEach(h => h(frame.payload));
        }
      };

      this.ws.onerror = reject;
    });
  }

  send(method, params) {
    return new Promise((resolve, reject) => {
      const id = crypto.randomUUID();
      this.pending.set(id, { resolve, reject });

      this.ws.send(JSON.stringify({
        type: 'req',
        id,
        method,
        params
      }));
    });
  }

  on(event, handler) {
    if (!this.eventHandlers.has(event)) {
      this.eventHandlers.set(event, []);
    }
    this.eventHandlers.get(event).push(handler);
  }

  async loadHistory(sessionKey, limit = 200) {
    return this.send('chat.history', { sessionKey, limit });
  }

  async sendMessage(sessionKey, message) {
    return this.send('chat.send', {
      sessionKey,
      message,
      idempotencyKey: crypto.randomUUID()
    });
  }

  async abort(sessionKey) {
    return this.send('chat.abort', { sessionKey });
  }
}

// Usage
const client = new ChatClient('ws://127.0.0.1:18789');

client.on('chat', (payload) => {
  if (payload.state === 'delta') {
    // Accumulate streaming text
    console.log('Streaming:', payload.message?.content);
  } else if (payload.state === 'final') {
    // Message complete
    console.log('Complete:', payload.message?.content);
  }
});

client.on('agent', (payload) => {
  if (payload.stream === 'tool') {
    console.log('Tool event:', payload.data);
  }
});

await client.connect();
const history = await client.loadHistory('main');
await client.sendMessage('main', 'Hello!');
