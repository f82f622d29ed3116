/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "host/maps.h"
#include "region/range_facts.h"

struct region_range region_range_overlap(struct region_range a, struct region_range b)
{
	return (struct region_range){
		.start = a.start > b.start ? a.start : b.start,
		.end = a.end < b.end ? a.end : b.end,
	};
}

int region_range_list_add(struct region_range_list *list, struct region_range range)
{
	struct region_range *grown =
		base_grow(list->ranges, &list->room, list->count, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	list->ranges = grown;
	list->ranges[list->count++] = range;
	return 0;
}

void region_range_list_release(struct region_range_list *list)
{
	free(list->ranges);
	*list = (struct region_range_list){ .ranges = NULL };
}

/* Calls @see for each VMA that touches the range, until it fails. */
static int each_vma(struct region_range range,
		    int (*see)(const struct host_maps_vma *vma, struct region_range part,
			       void *arg),
		    void *arg)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	int ret = host_maps_open(&maps, "/proc/self/smaps");

	if (ret)
		return ret;
	while ((ret = host_maps_next(&maps, &vma)) == 1 && vma.start < range.end) {
		struct region_range whole = { vma.start, vma.end };
		struct region_range part = region_range_overlap(whole, range);

		if (region_range_empty(part))
			continue;
		ret = see(&vma, part, arg);
		if (ret)
			break;
	}
	host_maps_close(&maps);
	return ret < 0 ? ret : 0;
}

struct survey {
	struct region_range range;
	struct mrg_vma_counts *facts;
	struct region_range_ends ends;
};

static int add_facts(const struct host_maps_vma *vma, struct region_range part, void *arg)
{
	struct survey *survey = arg;
	struct mrg_vma_counts *facts = survey->facts;
	/* Whether it has an anon_vma is not shown: none of its pages is anonymous,
	 * so it can lack one. */
	bool unwritten = vma->perms[1] == 'w' && vma->perms[3] == 'p' && !vma->anon;

	facts->vmas++;
	facts->mapped += part.end - part.start;
	facts->dontcopy += (vma->flags & HOST_MF_DONTCOPY) != 0;
	facts->special += (vma->flags & HOST_MF_SPECIAL) != 0;
	facts->unwritten += unwritten;
	if (vma->page_size > facts->page_size)
		facts->page_size = vma->page_size;
	if (part.start == survey->range.start)
		survey->ends.start_unwritten = unwritten;
	if (part.end == survey->range.end)
		survey->ends.end_unwritten = unwritten;
	return 0;
}

int region_range_facts(struct mrg_dev *dev, struct region_range range, struct mrg_vma_counts *facts,
		       struct region_range_ends *ends)
{
	struct survey survey = { .range = range, .facts = facts, .ends = { .known = true } };
	int ret;

	if (ends)
		*ends = (struct region_range_ends){ .known = false };
	/* A module of before these fields leaves them zero. */
	if (dev && !mrg_dev_vma(dev, 0, range.start, range.end, facts) &&
	    (!facts->vmas || (facts->mapped && facts->page_size)))
		return 0;
	memset(facts, 0, sizeof(*facts));
	ret = each_vma(range, add_facts, &survey);
	if (ends && !ret)
		*ends = survey.ends;
	return ret;
}

struct marked {
	struct region_range range;
	struct region_range_list *list;
	bool clipped;
};

static int add_marked(const struct host_maps_vma *vma, struct region_range part, void *arg)
{
	struct marked *marked = arg;

	if (!(vma->flags & HOST_MF_DONTCOPY))
		return 0;
	if ((vma->flags & HOST_MF_SPECIAL) && !(vma->flags & HOST_MF_HUGETLB) &&
	    (part.start != vma->start || part.end != vma->end))
		marked->clipped = true;
	return region_range_list_add(marked->list, part);
}

int region_range_marked(struct region_range range, struct region_range_list *list, bool *clipped)
{
	struct marked marked = { .range = range, .list = list };
	int ret;

	*list = (struct region_range_list){ .ranges = NULL };
	ret = each_vma(range, add_marked, &marked);
	if (ret)
		region_range_list_release(list);
	*clipped = marked.clipped;
	return ret;
}
