/** What the Messages surface is measured against: a bare relay, and one that maps OpenAI's wire; both without all that a server keeps. */
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import express from 'express';
import { events, type FromProvider, toAnswer, toProvider } from './bare-mapping.ts';

const [upstream = ''] = process.argv.slice(2);
const app = express();
app.use(express.json({ limit: '32mb' }));

/** The body is read, since one has to look which model is meant; the answer is passed on as it is. */
app.post('/pass/v1/messages', async (request, response) => {
  const { model, ...rest } = request.body;
  const answer = await fetch(`${upstream}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'k', 'anthropic-version': '2023-06-01' },
    body: JSON.stringify({ ...rest, model: model.split(':')[1] }),
  });
  response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
  // The same stream by the platform's name and by Node's.
  if (answer.body) await pipeline(Readable.fromWeb(answer.body as never), response);
});

app.post('/map/v1/messages', async (request, response) => {
  const answer = await fetch(`${upstream}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer k' },
    body: JSON.stringify(toProvider(request.body)),
  });
  const { model } = request.body;
  if (!answer.ok || !answer.body) return void response.status(502).json(await answer.json());
  // The provider is trusted to speak its own format.
  if (!request.body.stream) return void response.json(toAnswer((await answer.json()) as FromProvider, model));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for await (const { type, ...data } of events(answer.body.pipeThrough(new TextDecoderStream()), model))
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  response.end();
});

const server = app.listen(0, '127.0.0.1', () => {
  // A server that listens on a port has an address of this kind.
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.on('SIGTERM', () => process.exit(0));
