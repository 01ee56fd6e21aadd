/** `service sessions inspect`: what a session is doing, and what its agent has at hand. */
import type { Session, SessionInspection } from '@service/client/api';
import { withSessions } from '../connection.ts';
import { print, printJson } from '../output.ts';
import { findSession, noSuchSession } from '../session-ids.ts';
import { describeInspection } from '../session-state.ts';

/** For people in sections, or as JSON as the service answers it. */
export async function inspectSession(
  id: string,
  { server, json = false }: { readonly server?: string; readonly json?: boolean },
): Promise<void> {
  const { session, inspection } = await withSessions<Inspected>(
    server,
    async (client) => {
      const found = await findSession(client, id);
      const params = { path: { session_id: found.id } };
      const { data } = await client.GET('/api/v1/sessions/{session_id}/inspect', { params });
      return { session: found, inspection: data };
    },
    () => {
      throw noSuchSession(id);
    },
  );
  if (json) return printJson(inspection);
  print(describeInspection(session, inspection, { here: server === undefined }));
}

interface Inspected {
  readonly session: Session;
  readonly inspection: SessionInspection;
}
