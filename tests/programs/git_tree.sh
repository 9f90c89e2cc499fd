#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# git: init, add, commit, log, branch, merge, clone, gc on a tree of 1,000 files.
# needs: git

export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@moat GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@moat
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$TMPDIR/gitconfig
git config --global init.defaultBranch main
git config --global gc.auto 0
mkdir "$TMPDIR/r" && cd "$TMPDIR/r" || exit 1
git init -q .
for d in $(seq 1 20); do
	mkdir -p "dir$d/sub"
	for f in $(seq 1 50); do printf 'file %d of %d\n%s\n' "$f" "$d" "$(seq 1 "$f")" >"dir$d/sub/f$f.txt"; done
done
git add . && git commit -qm 'a thousand files' && git log --stat --oneline | tail -n 1
git rev-parse HEAD HEAD^{tree}
git status --short | wc -l
sed -i 's/file/FILE/' dir1/sub/*.txt; chmod +x dir2/sub/f1.txt; rm dir3/sub/f1.txt; echo new >untracked
git status --short | sort | head -n 5; git diff --shortstat; git diff | sha256sum
git stash -q; git status --short; git stash pop 2>&1 | tail -n 1 | sed 's/(.*)//'
git add -A; git commit -qm second; git log --oneline --graph
git checkout -qb side HEAD~1; echo side >side.txt; git add .; git commit -qm side
git checkout -q main; git merge -q --no-edit side; git log --oneline --graph; ls side.txt
git mv dir4 moved; git commit -qm moved; git log --follow --oneline moved/sub/f1.txt | wc -l
git tag -a v1 -m v1; git describe; git blame dir1/sub/f2.txt | tail -n 1; git grep -c FILE | wc -l
git gc -q; git count-objects -v | grep -E 'count|in-pack|packs'; git fsck 2>&1
git clone -q . ../clone && cd ../clone && git rev-parse HEAD && git log --format=%s && ls | wc -l
echo change >>dir5/sub/f5.txt && git commit -qam 'from the clone' && git push -q origin HEAD:refs/heads/pushed; git ls-remote origin | sort
cd ../r && git worktree add -q ../wt pushed && tail -n 1 ../wt/dir5/sub/f5.txt; git branch -a
git archive HEAD | sha256sum; git bisect start -q HEAD HEAD~2 2>&1 | head -n 1; git bisect reset -q 2>/dev/null
git reset -q --hard HEAD~1; git clean -fdq; git reflog | wc -l; git show HEAD:dir1/sub/f1.txt; git show no-such
