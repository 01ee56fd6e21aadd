/** What the contract is measured against: Express with the same authentication, log and repository call, and nothing else. */
import type { AddressInfo } from 'node:net';
import express from 'express';
import { createMetrics } from '../app.ts';
import { readServerSettings } from '../config/config.ts';
import { createLog } from '../log.ts';
import { openServices } from '../services.ts';

const { settings } = readServerSettings(process.argv.slice(2), process.env);
const log = createLog('info');
const services = await openServices({
  settings,
  environment: {},
  metrics: createMetrics(),
  log,
  draining: () => false,
  listensAt: () => '',
});

const app = express();
app.disable('x-powered-by').disable('etag');
app.get('/api/v1/sessions/:id', async (request, response) => {
  const principal = await services.identity.authenticate(
    (request.headers.authorization ?? '').slice('Bearer '.length),
  );
  const found = await services.store.sessions.find(principal, request.params.id);
  if (!found) return void response.status(404).end();
  response.setHeader('ETag', found.etag);
  response.json(found.session);
  log.info(
    { method: request.method, route: '/api/v1/sessions/:id', status: 200, user_id: principal.userId },
    'request',
  );
});
const server = app.listen(0, '127.0.0.1', () => {
  // A server that listens on a port has an address of this kind.
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.on('SIGTERM', () => {
  server.closeAllConnections();
  server.close(() => void services.close().then(() => process.exit(0)));
});
