/** A real `service serve` with an account, for tests of commands that speak to remote servers. */
import { createServiceClient, type ServiceClient } from '@service/client';
import { testHome } from './test-command.ts';

/** A server with one person beside its operator. */
export interface TestServer {
  readonly url: string;
  readonly email: string;
  readonly password: string;
  /** The operator's API key. */
  readonly operatorKey: string;
  /** Acts for the person. */
  readonly client: ServiceClient;
}

/** Starts it in a home of its own; its settings are those of the scripted model, if any. */
export async function startTestServer(
  settings: object = {},
  variables: Readonly<Record<string, string>> = {},
): Promise<TestServer> {
  const home = testHome();
  home.write('.config/service/service.json', settings);
  const words = ['serve', '--port', '0', '--data-dir', `${home.home}/data`];
  const server = home.start(words, { variables });
  const find = (pattern: RegExp) => pattern.exec(server.stdout())?.[0] ?? '';
  await server.until(() => /sk-[\w-]{43,}\s/.test(server.stdout()) && server.stdout().includes('http://'));
  const url = find(/http:\/\/127\.0\.0\.1:\d+/);
  const [email, password] = ['grace@example.com', 'correct-horse-battery'];
  const body = { email, password };
  const { data } = await createServiceClient({ baseUrl: url }).POST('/api/v1/auth/register', { body });
  const client = createServiceClient({ baseUrl: url, token: data.access_token });
  return { url, email, password, operatorKey: find(/sk-[\w-]{43,}/), client };
}
