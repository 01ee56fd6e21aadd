/** What a connected server has to read, and the templates of what it can make. */
import type { McpResource } from '../../contract/api.ts';
import { oneLine } from './failure.ts';
import { gather } from './pages.ts';
import type { ConnectedServer } from './server.ts';

/** More of either kind is shown to nobody. */
const most = 1000;

interface Listed {
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly mimeType?: string | undefined;
}

/** Rejects with McpFailure. */
export async function listResources(
  server: ConnectedServer,
  signal: AbortSignal,
): Promise<readonly McpResource[]> {
  const [resources, templates] = await server.request(
    (client, options) =>
      Promise.all([
        gather(
          async (params) => {
            const page = await client.request({ method: 'resources/list', params }, options);
            return { items: page.resources, nextCursor: page.nextCursor };
          },
          (one) => shown(one.uri, false, one),
          most,
        ),
        gather(
          async (params) => {
            const page = await client.request({ method: 'resources/templates/list', params }, options);
            return { items: page.resourceTemplates, nextCursor: page.nextCursor };
          },
          (one) => shown(one.uriTemplate, true, one),
          most,
          // Not every server with resources knows templates.
        ).catch(() => []),
      ]),
    signal,
  );
  return [...resources, ...templates];
}

function shown(uri: string, is_template: boolean, one: Listed): McpResource {
  const { name, title, description, mimeType } = one;
  return {
    ...{ uri: oneLine(uri, 4000), is_template },
    name: oneLine(title ?? name),
    description: description === undefined ? null : oneLine(description),
    mime_type: mimeType === undefined ? null : oneLine(mimeType, 200),
  };
}
