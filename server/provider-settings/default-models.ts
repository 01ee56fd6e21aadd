/** Default models: what somebody may choose, and which of several choices counts for a query. */
import type { ProviderCandidate } from '../config/config.ts';
import type { DefaultModels as DefaultModelsShown } from '../contract/api.ts';
import { Problem } from '../problem.ts';

/** By their full names; null where none is chosen. */
export type ChosenModels = Pick<DefaultModelsShown, 'large' | 'small' | 'embed'>;

/** What counts for a query, by full names; what nobody has chosen is absent. */
export interface CountingModels {
  readonly large?: string;
  readonly small?: string;
  readonly embed?: string;
  /** The large one where the person has chosen it, whose word counts before that of a workspace. */
  readonly ofPerson?: string;
}

export type ModelKind = keyof ChosenModels;

/** Whose queries, and where. */
export interface DefaultModelsAsker {
  readonly userId: string;
  readonly workspaceId: string;
}

export interface DefaultModels {
  /** Throws `model_unknown` for a model that none of the providers has. */
  check(chosen: ChosenModels, providers: KnownProviders): Promise<void>;
  /** The nearest choice of each kind whose provider has the model. */
  counting(asker: DefaultModelsAsker, own: readonly ProviderCandidate[]): Promise<CountingModels>;
  /** Somebody has chosen: from now on choices are looked for. */
  chosen(): void;
}

export interface KnownProviders {
  /** Those of stored settings. */
  readonly own: readonly ProviderCandidate[];
  /** Those of settings files and the environment. */
  readonly installation: readonly ProviderCandidate[];
}

export interface DefaultModelsParts {
  readonly records: {
    any(): Promise<boolean>;
    /** The nearest first. */
    forRuns(
      asker: DefaultModelsAsker,
    ): Promise<readonly (ChosenModels & { readonly scope: DefaultModelsShown['scope'] })[]>;
  };
  readonly installation: () => Promise<readonly ProviderCandidate[]>;
  /** Whether the list that is part of the program knows a model of the provider. */
  readonly isVendorModel: (providerId: string, modelId: string) => Promise<boolean>;
}

/** How old the knowledge may be that nobody in the installation has chosen anything, as most have not. */
const staleMs = 3000;
const kinds: readonly ModelKind[] = ['large', 'small', 'embed'];

export function createDefaultModels(parts: DefaultModelsParts): DefaultModels {
  const { records } = parts;
  let nobody = { since: Number.NEGATIVE_INFINITY };

  async function nobodyHasChosen(): Promise<boolean> {
    if (performance.now() - nobody.since < staleMs) return true;
    if (await records.any()) return false;
    nobody = { since: performance.now() };
    return true;
  }

  return {
    async check(chosen, providers) {
      const named = kinds.flatMap((kind) => {
        const name = chosen[kind];
        return name === null ? [] : [{ kind, name }];
      });
      const known = await Promise.all(named.map(({ name }) => canBeChosen(name, providers, parts)));
      const unknown = named.filter((_, index) => !known[index]);
      if (unknown.length > 0) throw refusal(unknown);
    },
    async counting(asker, own) {
      if (await nobodyHasChosen()) return {};
      const [choices, installation] = await Promise.all([records.forRuns(asker), parts.installation()]);
      const ids = new Set(own.map(({ id }) => id));
      const all = [...own, ...installation.filter(({ id }) => !ids.has(id))];
      const nearest = (kind: ModelKind) => choices.find((choice) => isThere(choice[kind], all));
      const named = kinds.flatMap((kind) => {
        const name = nearest(kind)?.[kind];
        return name ? [[kind, name]] : [];
      });
      const person = nearest('large');
      const counting: CountingModels = Object.fromEntries(named);
      return person?.scope === 'user' && person.large ? { ...counting, ofPerson: person.large } : counting;
    },
    chosen: () => {
      nobody = { since: Number.NEGATIVE_INFINITY };
    },
  };
}

/** Of a provider that lists what it has, no other model is asked. */
function isThere(name: string | null, providers: readonly ProviderCandidate[]): boolean {
  if (name === null) return false;
  const { provider, modelId } = split(name);
  const found = providers.find(({ id }) => id === provider);
  return found !== undefined && (!found.onlyListed || lists(found, modelId));
}

/** One that a vendor has, and nobody has heard of yet, is described or discovered before it is chosen. */
async function canBeChosen(
  name: string,
  { own, installation }: KnownProviders,
  { isVendorModel }: Pick<DefaultModelsParts, 'isVendorModel'>,
): Promise<boolean> {
  const { provider, modelId } = split(name);
  const of = (providers: readonly ProviderCandidate[]) => providers.filter(({ id }) => id === provider);
  const found = [...of(own), ...of(installation)];
  if (found.some((one) => lists(one, modelId))) return true;
  // Those of the installation nobody can describe here.
  if (of(installation).some(({ onlyListed }) => !onlyListed)) return true;
  return found.some(({ onlyListed }) => !onlyListed) && (await isVendorModel(provider, modelId));
}

function lists({ models }: ProviderCandidate, modelId: string): boolean {
  return models.some(({ id }) => id === modelId);
}

function split(name: string): { readonly provider: string; readonly modelId: string } {
  const colon = name.indexOf(':');
  return { provider: name.slice(0, colon), modelId: name.slice(colon + 1) };
}

function refusal(unknown: readonly { readonly kind: ModelKind; readonly name: string }[]): Problem {
  const errors = unknown.map(({ kind, name }) => ({
    in: 'body' as const,
    pointer: `/${kind}`,
    message: `no provider that counts here has the model ${name}`,
    code: 'model',
  }));
  const said = errors.map(({ pointer, message }) => `body${pointer}: ${message}`).join('; ');
  return new Problem(
    'model_unknown',
    `${said}. List the models of a setting with listProviderModels, and refresh or describe those that are missing.`,
    { errors },
  );
}
