/** What opens Vertex AI: the key file of a service account, or an API key. */
import { ExpansionError } from '../templates/expansion-error.ts';

/** The key on one line, so that it is a value like any other. Throws ExpansionError, which never shows it. */
export function vertexKey(text: string): string {
  if (!isKeyFile(text)) return text;
  const { type, client_email, private_key, ...rest } = membersOf(text);
  if (type !== 'service_account' || typeof client_email !== 'string' || typeof private_key !== 'string') {
    throw new ExpansionError(
      'The key file is not that of a service account',
      'Make a key of the type JSON for a service account, and use its file.',
    );
  }
  return JSON.stringify({ type, client_email, private_key, ...rest });
}

export function isKeyFile(key: string): boolean {
  return key.startsWith('{');
}

/** Throws ExpansionError where the address names no project. */
export function checkVertexUrl(url: string): void {
  if (/\/projects\/[^/]+\/locations\/[^/]+/.test(url)) return;
  throw new ExpansionError(
    'base_url of Vertex AI names no project and location',
    'Write https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION.',
  );
}

function membersOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
