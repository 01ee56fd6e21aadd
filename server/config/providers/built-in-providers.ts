/** What the service knows of providers by itself. */
import type { ProviderType } from './provider-type.ts';

/** Gives what a variable holds; nothing where it is not set. */
type Look = (variable: string) => string;

/** A provider that needs nothing but what its vendor's variables say. */
export interface BuiltInProvider {
  readonly name: string;
  readonly type: ProviderType;
  /** Where it is; nothing where the variables do not say. */
  readonly baseUrl: (look: Look) => string;
  /** Holds the key; with _FILE behind its name, the path of a file that holds it. */
  readonly keyVariable: string;
  /** Whether the variable holds the path of the file itself, as its vendor wants it. */
  readonly keyIsFile?: true;
  /** What has to be set besides the key. */
  readonly needs: readonly string[];
}

/** By id, in order of preference. A Map, because an id may be "constructor". */
export const builtInProviders: ReadonlyMap<string, BuiltInProvider> = new Map<string, BuiltInProvider>([
  [
    'openai',
    {
      name: 'OpenAI',
      type: 'openai',
      baseUrl: (look) => look('OPENAI_BASE_URL') || 'https://api.openai.com/v1',
      keyVariable: 'OPENAI_API_KEY',
      needs: [],
    },
  ],
  [
    'anthropic',
    {
      name: 'Anthropic',
      type: 'anthropic',
      baseUrl: (look) => look('ANTHROPIC_BASE_URL') || 'https://api.anthropic.com/v1',
      keyVariable: 'ANTHROPIC_API_KEY',
      needs: [],
    },
  ],
  [
    'gemini',
    {
      name: 'Google Gemini',
      type: 'gemini',
      baseUrl: (look) => look('GOOGLE_GEMINI_BASE_URL') || 'https://generativelanguage.googleapis.com/v1beta',
      keyVariable: 'GEMINI_API_KEY',
      needs: [],
    },
  ],
  [
    'azure',
    {
      name: 'Azure OpenAI',
      type: 'azure',
      baseUrl: azureUrl,
      keyVariable: 'AZURE_OPENAI_API_KEY',
      needs: ['AZURE_OPENAI_ENDPOINT'],
    },
  ],
  [
    'vertexai',
    {
      name: 'Google Vertex AI',
      type: 'vertexai',
      baseUrl: vertexUrl,
      keyVariable: 'GOOGLE_APPLICATION_CREDENTIALS',
      keyIsFile: true,
      needs: ['GOOGLE_CLOUD_PROJECT'],
    },
  ],
]);

/** The variables whose value may stand in a file instead, which a variable with _FILE behind its name then names. */
export const secretVariables: ReadonlySet<string> = new Set(
  [...builtInProviders.values()].flatMap(({ keyVariable, keyIsFile }) => (keyIsFile ? [] : [keyVariable])),
);

/** The model of a built-in provider whose settings list none; null where only the provider knows its models. */
export const defaultModels: Readonly<Record<ProviderType, string | null>> = {
  openai: 'gpt-5.2',
  'openai-compat': null,
  anthropic: 'claude-sonnet-5',
  gemini: 'gemini-3.8-flash',
  azure: null,
  vertexai: 'gemini-3.8-flash',
};

/** With a version the deployments are asked by their paths, without one by those that need none. */
function azureUrl(look: Look): string {
  const [endpoint, version] = [look('AZURE_OPENAI_ENDPOINT'), look('OPENAI_API_VERSION')];
  return endpoint && version ? `${endpoint}?api-version=${version}` : endpoint;
}

function vertexUrl(look: Look): string {
  const [project, place] = [look('GOOGLE_CLOUD_PROJECT'), look('GOOGLE_CLOUD_LOCATION') || 'global'];
  if (!project) return '';
  const host = place === 'global' ? 'aiplatform' : `${place}-aiplatform`;
  return `https://${host}.googleapis.com/v1/projects/${project}/locations/${place}`;
}
