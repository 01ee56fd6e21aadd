/** Why a repository of skills could not be fetched, in a sentence for whoever named it. */
export class RepositoryFault extends Error {
  override name = 'RepositoryFault';
}
