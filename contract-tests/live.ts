/** A live server with a scripted model behind it, and the few raw calls that the tests of the wire make. */
import { createServiceClient, type ServiceClient } from '@service/client';
import { type Server, startServer } from './start-server.ts';
import { startUpstream, type Upstream } from './upstream/start-upstream.ts';

export interface Live {
  readonly server: Server;
  readonly upstream: Upstream;
  /** The client of the operator. */
  readonly client: ServiceClient;
  /** Posts to a path with the operator's key. */
  post(path: string, body: object, signal?: AbortSignal): Promise<Response>;
  /** The events of a run from the server, after an event. */
  events(runId: string, after?: string): Promise<Response>;
  stop(): Promise<void>;
}

export async function startLive(variables: Record<string, string> = {}): Promise<Live> {
  const upstream = await startUpstream();
  const server = await startServer({ upstreamUrl: upstream.url, variables });
  const headers = { Authorization: `Bearer ${server.operatorKey}`, 'Content-Type': 'application/json' };
  return {
    server,
    upstream,
    client: createServiceClient({ baseUrl: server.url, token: server.operatorKey }),
    post: (path, body, signal) =>
      fetch(server.url + path, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
        ...(signal && { signal }),
      }),
    events: (runId, after) =>
      fetch(`${server.url}/api/v1/runs/${runId}/events`, {
        headers: { ...headers, ...(after !== undefined && { 'Last-Event-ID': after }) },
      }),
    async stop() {
      await server.stop();
      await upstream.stop();
    },
  };
}
