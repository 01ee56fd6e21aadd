/** A model whose provider somebody may change or take away while a run asks it: looked up again at each call. */
import { Problem } from '../../problem.ts';
import { later } from '../models/later.ts';
import { type Model, ModelFailure } from '../models/model.ts';
import type { ProviderDefinition } from './provider-definition.ts';

export interface FollowedProvider {
  readonly definition: ProviderDefinition;
  /** As it is now; null where it is not there any more. */
  readonly current: () => Promise<ProviderDefinition | null>;
  readonly open: (definition: ProviderDefinition) => Model;
}

/** What was connected stays as long as the definition is the same one. */
export function followedModel({ definition, current, open }: FollowedProvider): Model {
  let kept = { definition, model: open(definition) };
  const { name, relay } = kept.model;

  async function now(): Promise<Model> {
    const newest = await current().catch(unlessGone);
    if (newest === null) throw gone(name);
    if (newest !== kept.definition) kept = { definition: newest, model: open(newest) };
    return kept.model;
  }

  return {
    name,
    facts: () => kept.model.facts(),
    stream: (request, signal) => later(async () => (await now()).stream(request, signal)),
    ...(relay && {
      relay: async (request, signal) => {
        const model = await now();
        if (!model.relay) throw gone(name);
        return model.relay(request, signal);
      },
    }),
  };
}

function unlessGone(error: unknown): null {
  if (error instanceof Problem && error.code === 'not_found') return null;
  throw error;
}

function gone(name: string): ModelFailure {
  return new ModelFailure(
    'provider_refused',
    'replace',
    `The provider setting by which ${name} was asked has been taken away or changed; ask again.`,
  );
}
